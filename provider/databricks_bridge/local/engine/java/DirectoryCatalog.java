package databricks_bridge.local;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.delta.DeltaLog;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of Delta tables that is a folder: schema.table exists where root/schema/table/_delta_log holds a commit or a
 * checkpoint.
 *
 * <p>It keeps no state of its own, so other processes may make, change and drop tables by writing files. Delta's own
 * catalog works only as Spark's session catalog; each call therefore registers the table's location there, under a
 * database name that no user writes, and delegates. Names are lower case, as Unity Catalog keeps them.
 */
public class DirectoryCatalog implements StagingTableCatalog, SupportsNamespaces, RelationCatalog {
  /** Registering is look-then-create on a catalog that all sessions share. */
  private static final Object REGISTRATION = new Object();

  private String name;
  private Path root;
  private boolean readOnly;
  private SparkSession owner;

  @Override
  public void initialize(String catalogName, CaseInsensitiveStringMap options) {
    name = catalogName;
    root = Paths.get(options.get("root")).toAbsolutePath().normalize();
    owner = SparkSession.active();
    readOnly = options.getBoolean("read_only", false);
    if (!Files.isDirectory(root)) {
      throw new IllegalArgumentException("Catalog " + name + " does not exist: there is no folder " + root);
    }
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String[] defaultNamespace() {
    return new String[] {"default"};
  }

  // Tables

  @Override
  public boolean tableExists(Identifier table) {
    if (!isPlain(table) || !FirstWrites.isTable(folder(table))) {
      return false;
    }
    // Between the first commit and its end, Delta registers the table itself.
    return !FirstWrites.isUnderWay(folder(table)) || delta().tableExists(known(table));
  }

  @Override
  public Relation loadRelation(Identifier relation) throws NoSuchTableException {
    if (!viewExists(relation)) {
      return loadTable(relation);
    }
    try {
      return loadView(relation);
    } catch (NoSuchViewException dropped) {
      throw new NoSuchTableException(relation);
    }
  }

  @Override
  public Table loadTable(Identifier table) throws NoSuchTableException {
    return isPath(table) ? delta().loadTable(table) : delta().loadTable(registeredExisting(table));
  }

  @Override
  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return isPath(table) ? delta().loadTable(table, version) : delta().loadTable(registeredExisting(table), version);
  }

  @Override
  public Table loadTable(Identifier table, long timestamp) throws NoSuchTableException {
    return isPath(table) ? delta().loadTable(table, timestamp) : delta().loadTable(registeredExisting(table), timestamp);
  }

  @Override
  public Table createTable(Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    Identifier made = registeredNew(table);
    Map<String, String> all = located(table, properties);
    try (FirstWrites.UnderWay write = FirstWrites.begin(folder(table))) {
      return delta().createTable(made, columns, partitions, all);
    }
  }

  @Override
  public Table createTable(Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    Identifier made = registeredNew(table);
    Map<String, String> all = located(table, properties);
    try (FirstWrites.UnderWay write = FirstWrites.begin(folder(table))) {
      return delta().createTable(made, schema, partitions, all);
    }
  }

  @Override
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return FirstWrites.staged(
        delta().stageCreate(registeredNew(table), columns, partitions, located(table, properties)), folder(table));
  }

  @Override
  public StagedTable stageCreate(
      Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return FirstWrites.staged(
        delta().stageCreate(registeredNew(table), schema, partitions, located(table, properties)), folder(table));
  }

  @Override
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    return delta().stageReplace(registeredExisting(table), columns, partitions, located(table, properties));
  }

  @Override
  public StagedTable stageReplace(
      Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws NoSuchTableException, NoSuchNamespaceException {
    return delta().stageReplace(registeredExisting(table), schema, partitions, located(table, properties));
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    return FirstWrites.staged(
        delta().stageCreateOrReplace(registeredNew(table), columns, partitions, located(table, properties)), folder(table));
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier table, StructType schema, Transform[] partitions, Map<String, String> properties)
      throws NoSuchNamespaceException {
    return FirstWrites.staged(
        delta().stageCreateOrReplace(registeredNew(table), schema, partitions, located(table, properties)), folder(table));
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
    refuseWhereReadOnly();
    return delta().alterTable(registeredExisting(table), changes);
  }

  @Override
  public boolean dropTable(Identifier table) {
    refuseWhereReadOnly();
    if (!tableExists(table)) {
      return false;
    }
    delta().dropTable(registered(table));
    Folders.deleteTree(folder(table));
    forget(table);
    return true;
  }

  @Override
  public void renameTable(Identifier table, Identifier renamed)
      throws NoSuchTableException, TableAlreadyExistsException {
    refuseWhereReadOnly();
    registeredExisting(table);
    Identifier target = renamedTo(renamed);
    if (tableExists(target) || viewExists(target)) {
      throw new TableAlreadyExistsException(target);
    }
    FirstWrites.clear(folder(target));
    Folders.move(folder(table), folder(target));
    forget(table);
    forget(target);
  }

  /** Where a table or view goes: the name that RENAME TO gives may begin with this catalog's. */
  private Identifier renamedTo(Identifier given) {
    String[] namespace = given.namespace();
    boolean full = namespace.length == 2 && namespace[0].equalsIgnoreCase(name);
    Identifier target = full ? Identifier.of(new String[] {namespace[1]}, given.name()) : given;
    if (target.namespace().length == 2) {
      throw new UnsupportedOperationException(
          "RENAME TO " + target + ": a table or view stays in its catalog, which is " + name);
    }
    if (!isPlain(target)) {
      throw new IllegalArgumentException("Not a name of a table or view: " + target);
    }
    if (!namespaceExists(target.namespace())) {
      throw new IllegalArgumentException(
          "[SCHEMA_NOT_FOUND] RENAME TO " + target + ": there is no schema " + target.namespace()[0] + " in " + name);
    }
    return target;
  }

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    return Folders.children(existing(namespace))
        .map(path -> Identifier.of(namespace, Folders.fileName(path)))
        .filter(this::tableExists)
        .toArray(Identifier[]::new);
  }

  // Schemas

  @Override
  public String[][] listNamespaces() {
    return Folders.children(root).filter(Files::isDirectory).map(path -> new String[] {Folders.fileName(path)}).toArray(String[][]::new);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) {
      return listNamespaces();
    }
    existing(namespace);
    return new String[0][];
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return namespace.length == 1 && Folders.isPlain(namespace[0]) && Files.isDirectory(folder(namespace));
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    return Map.of("location", existing(namespace).toString());
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    refuseWhereReadOnly();
    if (namespace.length != 1 || !Folders.isPlain(namespace[0])) {
      throw new IllegalArgumentException("Not a schema name: " + String.join(".", namespace));
    }
    try {
      Files.createDirectories(folder(namespace));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new UnsupportedOperationException("ALTER SCHEMA is not served by the local workspace");
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    refuseWhereReadOnly();
    Path schema = existing(namespace);
    if (!cascade && listTables(namespace).length + listViews(namespace).length > 0) {
      throw new NonEmptyNamespaceException(namespace);
    }
    for (Identifier table : listTables(namespace)) {
      dropTable(table);
    }
    Folders.deleteTree(schema);
    return true;
  }

  // Views

  @Override
  public boolean viewExists(Identifier view) {
    return isPlain(view) && Files.isRegularFile(viewFile(view));
  }

  @Override
  public Identifier[] listViews(String[] namespace) throws NoSuchNamespaceException {
    return Folders.children(existing(namespace))
        .map(Folders::fileName)
        .filter(file -> file.endsWith(ViewFile.SUFFIX))
        .map(file -> Identifier.of(namespace, file.substring(0, file.length() - ViewFile.SUFFIX.length())))
        .toArray(Identifier[]::new);
  }

  @Override
  public View loadView(Identifier view) throws NoSuchViewException {
    if (!viewExists(view)) {
      throw new NoSuchViewException(view);
    }
    return ViewFile.read(viewFile(view));
  }

  @Override
  public View createView(Identifier view, View definition)
      throws ViewAlreadyExistsException, NoSuchNamespaceException {
    refuseWhereReadOnly();
    existing(view.namespace());
    if (viewExists(view) || tableExists(view)) {
      throw new ViewAlreadyExistsException(view);
    }
    ViewFile.write(viewFile(view), definition);
    return definition;
  }

  @Override
  public View replaceView(Identifier view, View definition) throws NoSuchViewException {
    refuseWhereReadOnly();
    if (!viewExists(view)) {
      throw new NoSuchViewException(view);
    }
    ViewFile.write(viewFile(view), definition);
    return definition;
  }

  @Override
  public boolean dropView(Identifier view) {
    refuseWhereReadOnly();
    return viewExists(view) && viewFile(view).toFile().delete();
  }

  @Override
  public void renameView(Identifier view, Identifier renamed) throws NoSuchViewException, ViewAlreadyExistsException {
    refuseWhereReadOnly();
    if (!viewExists(view)) {
      throw new NoSuchViewException(view);
    }
    Identifier target = renamedTo(renamed);
    if (viewExists(target) || tableExists(target)) {
      throw new ViewAlreadyExistsException(target);
    }
    Folders.move(viewFile(view), viewFile(target));
  }

  private void refuseWhereReadOnly() {
    if (readOnly) {
      throw new UnsupportedOperationException("The catalog " + name + " is read-only");
    }
  }

  // How a table is known to Delta's catalog

  private StagingTableCatalog delta() {
    // A thread that a notebook has started has no session of its own until it runs a statement.
    if (SparkSession.getActiveSession().isEmpty()) {
      SparkSession.setActiveSession(owner);
    }
    return (StagingTableCatalog) SparkSession.active().sessionState().catalogManager().v2SessionCatalog();
  }

  private Identifier registeredExisting(Identifier table) throws NoSuchTableException {
    if (!tableExists(table)) {
      throw new NoSuchTableException(table);
    }
    return registered(table);
  }

  private Identifier registeredNew(Identifier table) throws NoSuchNamespaceException {
    refuseWhereReadOnly();
    existing(table.namespace());
    if (!isPlain(table)) {
      throw new IllegalArgumentException("Not a table name: " + table.name());
    }
    if (viewExists(table)) {
      throw new IllegalArgumentException("[TABLE_OR_VIEW_ALREADY_EXISTS] " + table + " is a view");
    }
    FirstWrites.clear(folder(table));
    return registered(table);
  }

  /** The table's name in the session catalog, where it is registered if and only if its folder exists. */
  private Identifier registered(Identifier table) {
    Identifier known = known(table);
    synchronized (REGISTRATION) {
      try {
        SupportsNamespaces databases = (SupportsNamespaces) delta();
        if (!databases.namespaceExists(known.namespace())) {
          databases.createNamespace(known.namespace(), new HashMap<>());
        }
        boolean isKnown = delta().tableExists(known);
        if (tableExists(table) && !isKnown) {
          delta().createTable(known, new Column[0], new Transform[0], located(table, Map.of()));
        }
        if (!tableExists(table) && isKnown) {
          delta().dropTable(known);
          forget(table);
        }
      } catch (Exception error) {
        throw new IllegalStateException("Delta's catalog refuses " + folder(table) + ": " + error.getMessage(), error);
      }
    }
    return known;
  }

  private Identifier known(Identifier table) {
    String database = name + "__" + Folders.lower(table.namespace()[0]) + "__" + Integer.toHexString(root.hashCode());
    return Identifier.of(new String[] {database}, Folders.lower(table.name()));
  }

  private Map<String, String> located(Identifier table, Map<String, String> properties) {
    String provider = properties.getOrDefault("provider", "delta");
    if (!provider.equalsIgnoreCase("delta")) {
      throw new UnsupportedOperationException("The local workspace keeps Delta tables only, not " + provider);
    }
    String location = properties.get("location");
    if (location != null && !location.equals(folder(table).toString())) {
      throw new UnsupportedOperationException("The local workspace keeps managed tables only; leave LOCATION out");
    }
    Map<String, String> all = new HashMap<>(properties);
    all.put("provider", "delta");
    all.put("location", folder(table).toString());
    return all;
  }

  /** Delta keeps the last snapshot of each path; a new table in the same folder must not begin with it. */
  private void forget(Identifier table) {
    DeltaLog.invalidateCache(SparkSession.active(), new org.apache.hadoop.fs.Path(folder(table).toUri()));
  }

  // Files

  /** delta.`/some/path`: a table that is named by its folder. */
  private static boolean isPath(Identifier identifier) {
    return identifier.namespace().length == 1
        && identifier.namespace()[0].equalsIgnoreCase("delta")
        && identifier.name().startsWith("/");
  }

  private static boolean isPlain(Identifier identifier) {
    return identifier.namespace().length == 1
        && Folders.isPlain(identifier.namespace()[0])
        && Folders.isPlain(identifier.name());
  }

  private Path folder(String[] namespace) {
    return root.resolve(Folders.lower(namespace[0]));
  }

  Path folder(Identifier table) {
    return folder(table.namespace()).resolve(Folders.lower(table.name()));
  }

  private Path viewFile(Identifier view) {
    return folder(view.namespace()).resolve(Folders.lower(view.name()) + ViewFile.SUFFIX);
  }

  private Path existing(String[] namespace) throws NoSuchNamespaceException {
    if (!namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return folder(namespace);
  }
}
