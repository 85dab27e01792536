package databricks_bridge.local;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTableAsSelectPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.delta.commands.DeleteCommand;
import org.apache.spark.sql.delta.commands.MergeIntoCommand;
import org.apache.spark.sql.delta.commands.UpdateCommand;
import org.apache.spark.sql.delta.commands.cdc.CDCReader;
import org.apache.spark.sql.delta.files.TahoeFileIndex;
import org.apache.spark.sql.delta.sources.DeltaSink;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSourceV1;
import org.apache.spark.sql.sources.BaseRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What one statement reads and writes, by its analysed plan: the folders of tables and files, and the names of views
 * (which do not begin with a slash). Changes of a table's definition alone are not among it.
 */
public final class Lineage {
  static final String UNKNOWN = "What a statement read and wrote is not known: ";

  private static final ObjectMapper JSON = new ObjectMapper();

  final Set<String> reads = new LinkedHashSet<>();
  final Set<String> writes = new LinkedHashSet<>();

  /** The columns of rows that are computed already, as those are which the function of foreachBatch is given. */
  private final Set<ExprId> computed = new HashSet<>();

  /** The columns of a micro-batch that is handed to a function, whose statements are the ones that write; else null. */
  private Set<ExprId> handed;

  private Lineage() {}

  static Lineage of(QueryExecution execution) {
    Lineage lineage = new Lineage();
    lineage.visit(execution.analyzed());
    return lineage;
  }

  /** The same of a statement that has just succeeded, as JSON: `{"at": ..., "reads": [...], "writes": [...]}`. */
  public static String json(QueryExecution execution) {
    Lineage lineage = new Lineage();
    try {
      lineage.visit(execution.analyzed());
    } catch (RuntimeException | LinkageError error) {
      // It must not fail a statement that has succeeded.
      System.err.println(UNKNOWN + error);
    }
    return lineage.json(System.currentTimeMillis());
  }

  boolean feedsFunction() {
    return handed != null;
  }

  /** Whether this statement of a function reads the rows that the function was given. */
  boolean readsBatchOf(Lineage microBatch) {
    return !Collections.disjoint(computed, microBatch.handed);
  }

  boolean isEmpty() {
    return reads.isEmpty() && writes.isEmpty();
  }

  String json(long at) {
    try {
      return JSON.writeValueAsString(Map.of("at", at, "reads", reads, "writes", writes));
    } catch (JsonProcessingException never) {
      throw new IllegalStateException(never);
    }
  }

  private void visit(LogicalPlan plan) {
    if (plan instanceof V2WriteCommand write) {
      target((LogicalPlan) write.table());
      visit(write.query());
    } else if (plan instanceof V2CreateTableAsSelectPlan create) {
      target(create.table());
      visit(create.query());
    } else if (plan instanceof MergeIntoCommand merge) {
      target(merge.target());
      visit(merge.source());
    } else if (plan instanceof UpdateCommand update) {
      target(update.target());
      subqueries(plan);
    } else if (plan instanceof DeleteCommand delete) {
      target(delete.target());
      subqueries(plan);
    } else if (plan instanceof SaveIntoDataSourceCommand save) {
      save.options().get("path").foreach(path -> writes.add(folder(new Path(path))));
      visit(save.query());
    } else if (plan instanceof InsertIntoHadoopFsRelationCommand files) {
      writes.add(folder(files.outputPath()));
      visit(files.query());
    } else if (plan instanceof WriteToMicroBatchDataSourceV1 batch) {
      if (batch.sink() instanceof ForeachBatchSink) {
        handed = columns(batch.query());
      } else if (batch.sink() instanceof DeltaSink sink) {
        writes.add(folder(sink.path()));
      }
      visit(batch.query());
    } else {
      source(plan);
      CollectionConverters.asJava(plan.children()).forEach(this::visit);
      subqueries(plan);
    }
  }

  private void subqueries(LogicalPlan plan) {
    CollectionConverters.asJava(plan.subqueries()).forEach(this::visit);
  }

  private void source(LogicalPlan plan) {
    if (plan instanceof LogicalRelation relation) {
      relation(relation.relation());
    } else if (plan instanceof DataSourceV2Relation relation) {
      table(relation.table(), reads);
    } else if (plan instanceof LogicalRDD) {
      computed.addAll(columns(plan));
    } else if (plan instanceof View view && !view.isTempView()) {
      reads.add(name(view.desc()));
    }
  }

  /** What is written: a relation, or the name of a table that there is not yet. */
  private void target(LogicalPlan plan) {
    if (plan instanceof ResolvedIdentifier made && made.catalog() instanceof DirectoryCatalog catalog) {
      writes.add(catalog.folder(made.identifier()).toString());
    } else if (plan instanceof DataSourceV2Relation relation) {
      table(relation.table(), writes);
    } else {
      Lineage relation = new Lineage();
      relation.visit(plan);
      writes.addAll(relation.reads);
    }
  }

  private void table(Table table, Set<String> to) {
    if (table instanceof DeltaTableV2 delta) {
      to.add(folder(delta.path()));
    }
  }

  private void relation(BaseRelation relation) {
    if (relation instanceof CDCReader.DeltaCDFRelation changes) {
      reads.add(folder(changes.snapshotWithSchemaMode().snapshot().deltaLog().dataPath()));
    } else if (relation instanceof HadoopFsRelation files) {
      if (files.location() instanceof TahoeFileIndex delta) {
        reads.add(folder(delta.path()));
      } else if (files.location() instanceof InMemoryFileIndex listed) {
        reads.addAll(folders(files, CollectionConverters.asJava(listed.rootPaths())));
      }
    }
  }

  /** Where the files are: a stream says the folder that it watches, a reader what it was given. */
  private static Set<String> folders(HadoopFsRelation files, List<Path> given) {
    Set<String> folders = new LinkedHashSet<>();
    for (Map.Entry<String, String> option : CollectionConverters.asJava(files.options()).entrySet()) {
      if (option.getKey().toLowerCase(Locale.ROOT).equals("basepath")) {
        return Set.of(folder(new Path(option.getValue())));
      }
    }
    for (Path path : given) {
      folders.add(folder(given.size() == 1 ? path : path.getParent()));
    }
    return folders;
  }

  private static Set<ExprId> columns(LogicalPlan plan) {
    Set<ExprId> ids = new HashSet<>();
    CollectionConverters.asJava(plan.output()).forEach(column -> ids.add(column.exprId()));
    return ids;
  }

  private static String folder(Path path) {
    return path.toUri().getPath();
  }

  private static String name(CatalogTable view) {
    return String.join(".", CollectionConverters.asJava(view.identifier().nameParts()));
  }
}
