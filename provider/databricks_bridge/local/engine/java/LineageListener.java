package databricks_bridge.local;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;

/**
 * Writes what each statement of a notebook read and wrote to the file that its session names, a line of JSON each.
 *
 * <p>A session's own QueryExecutionListener would not be told of a stream's micro-batches, which have no name. A stream
 * works in a clone of the session that started it, so it names the same file. A statement may run others inside it: they
 * are a part of it, but for those of the function that foreachBatch calls.
 */
final class LineageListener extends SparkListener {
  /** A session's setting: the file. Without it nothing is written. */
  static final String FILE = "spark.databricks_bridge.lineage";

  /** The name under which a relation that is a plan of its own, as a change feed is, is made ready for a statement. */
  private static final String OF_A_RELATION = "rdd";

  private static LineageListener listening;

  // Touched by the thread of the listener bus alone.
  private final Map<Long, Execution> executions = new HashMap<>();
  private final Map<Long, Root> roots = new HashMap<>();

  private record Execution(long root, int depth) {}

  private record Ended(Lineage lineage, long at) {}

  private static final class Root {
    private int open;
    private final List<Ended> inner = new ArrayList<>();
  }

  /** Comes after everything that was posted to the bus before it. */
  private static final class Fence implements SparkListenerEvent {
    private final CountDownLatch reached = new CountDownLatch(1);

    @Override
    public boolean logEvent() {
      return false;
    }
  }

  static synchronized void listen(SparkContext context) {
    if (listening == null) {
      listening = new LineageListener();
      context.addSparkListener(listening);
    }
  }

  /** Waits until what has ended by now is written, at most so long; whether it is. */
  static boolean catchUp(SparkContext context, long timeoutMillis) throws InterruptedException {
    Fence fence = new Fence();
    context.listenerBus().post(fence);
    return fence.reached.await(timeoutMillis, TimeUnit.MILLISECONDS);
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    try {
      if (event instanceof SparkListenerSQLExecutionStart start) {
        started(start);
      } else if (event instanceof SparkListenerSQLExecutionEnd end) {
        ended(end);
      } else if (event instanceof Fence fence) {
        fence.reached.countDown();
      }
    } catch (Exception | LinkageError error) {
      System.err.println(Lineage.UNKNOWN + error);
    }
  }

  private void started(SparkListenerSQLExecutionStart start) {
    long id = start.executionId();
    long root = start.rootExecutionId().isDefined() ? (Long) start.rootExecutionId().get() : id;
    if (root == id) {
      roots.put(root, new Root());
    }
    Root whole = roots.get(root);
    if (whole != null) {
      executions.put(id, new Execution(root, whole.open++));
    }
  }

  private void ended(SparkListenerSQLExecutionEnd end) throws IOException {
    Execution execution = executions.remove(end.executionId());
    Root root = execution == null ? null : roots.get(execution.root());
    if (root == null) {
      return;
    }
    root.open--;
    if (execution.depth() == 0) {
      roots.remove(execution.root());
    }
    QueryExecution done = end.qe();
    if (done == null || execution.depth() > 1 || end.executionName().contains(OF_A_RELATION)) {
      return;
    }
    String file = done.sparkSession().conf().get(FILE, "");
    if (file.isEmpty()) {
      return;
    }
    boolean succeeded = end.executionFailure().isEmpty();
    if (execution.depth() == 1 && succeeded) {
      root.inner.add(new Ended(Lineage.of(done), end.time()));
    } else if (execution.depth() == 0) {
      write(file, statements(Lineage.of(done), succeeded, root.inner, end.time()));
    }
  }

  /** The statement itself; or, where its rows went to a function, the statements of that, which may have read them. */
  private static List<Ended> statements(Lineage whole, boolean succeeded, List<Ended> inner, long at) {
    List<Ended> all = new ArrayList<>();
    boolean passedOn = false;
    if (whole.feedsFunction()) {
      for (Ended one : inner) {
        if (one.lineage().readsBatchOf(whole) && !one.lineage().writes.isEmpty()) {
          one.lineage().reads.addAll(whole.reads);
          passedOn = true;
        }
        all.add(one);
      }
    }
    if (succeeded && !passedOn) {
      all.add(new Ended(whole, at));
    }
    return all;
  }

  private static void write(String file, List<Ended> statements) throws IOException {
    StringBuilder lines = new StringBuilder();
    for (Ended one : statements) {
      if (!one.lineage().isEmpty()) {
        lines.append(one.lineage().json(one.at())).append('\n');
      }
    }
    if (lines.length() > 0) {
      byte[] content = lines.toString().getBytes(StandardCharsets.UTF_8);
      Files.write(Paths.get(file), content, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
  }
}
