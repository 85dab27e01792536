package databricks_bridge.local;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * When a folder is a table, and what is written before it is one.
 *
 * <p>Delta makes `_delta_log` before it writes data, and the first commit last. A write that fails or is cancelled in
 * between leaves files that belong to no table: the next first write of the name may remove them, as long as no other
 * first write of it is under way.
 */
final class FirstWrites {
  private static final Pattern LOG_FILE = Pattern.compile("[0-9]{20}\\.(json|checkpoint\\..+)");
  private static final Map<Path, Integer> UNDER_WAY = new HashMap<>();

  private FirstWrites() {}

  /** Whether the folder's log holds a commit or a checkpoint. */
  static boolean isTable(Path folder) {
    Path log = folder.resolve("_delta_log");
    if (!Files.isDirectory(log)) {
      return false;
    }
    try (Stream<Path> files = Files.list(log)) {
      return files.anyMatch(file -> LOG_FILE.matcher(Folders.fileName(file)).matches());
    } catch (IOException | UncheckedIOException gone) {
      return false;
    }
  }

  static synchronized boolean isUnderWay(Path folder) {
    return UNDER_WAY.containsKey(folder);
  }

  /** Removes what a first write that did not come to its commit has left. */
  static synchronized void clear(Path folder) {
    if (!isUnderWay(folder) && !isTable(folder) && Files.isDirectory(folder.resolve("_delta_log"))) {
      Folders.deleteTree(folder);
    }
  }

  /** To be closed when the first write has succeeded or failed; it leaves nothing where that has failed. */
  static synchronized UnderWay begin(Path folder) {
    UNDER_WAY.merge(folder, 1, Integer::sum);
    return () -> end(folder);
  }

  /** A first write of one table. */
  interface UnderWay extends AutoCloseable {
    @Override
    void close();
  }

  private static synchronized void end(Path folder) {
    UNDER_WAY.computeIfPresent(folder, (path, writers) -> writers == 1 ? null : writers - 1);
    try {
      clear(folder);
    } catch (UncheckedIOException stillWritten) {
      // A task that was cancelled may write a last file. The next first write clears the folder once more.
    }
  }

  /** A staged table whose first commit is a first write. All else is what Delta has staged. */
  static StagedTable staged(StagedTable staged, Path folder) {
    return isTable(folder) ? staged : new Staged(staged, folder);
  }

  private record Staged(StagedTable delta, Path folder) implements StagedTable, SupportsWrite {
    @Override
    public void commitStagedChanges() {
      try (UnderWay write = begin(folder)) {
        delta.commitStagedChanges();
      }
    }

    @Override
    public void abortStagedChanges() {
      delta.abortStagedChanges();
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return ((SupportsWrite) delta).newWriteBuilder(info);
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return delta.reportDriverMetrics();
    }

    @Override
    public String name() {
      return delta.name();
    }

    @Override
    @SuppressWarnings("deprecation")
    public StructType schema() {
      return delta.schema();
    }

    @Override
    public Column[] columns() {
      return delta.columns();
    }

    @Override
    public Transform[] partitioning() {
      return delta.partitioning();
    }

    @Override
    public Map<String, String> properties() {
      return delta.properties();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return delta.capabilities();
    }
  }
}
