package databricks_bridge.local;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import py4j.ClientServer;
import py4j.DefaultGatewayServerListener;
import py4j.Py4JServerConnection;

/** The sessions of the notebooks that run now, each with a gateway of its own. */
public final class NotebookSessions {
  private static final Map<String, NotebookSessions> OPEN = new ConcurrentHashMap<>();
  private static final long PAUSE_MILLIS = 50;
  private static final long LINEAGE_MILLIS = 5_000;

  private final Py4JServer gateway;
  private final Map<String, String> settings;
  private final List<SparkSession> sessions = new CopyOnWriteArrayList<>();
  private final Set<Py4JServerConnection> connections = ConcurrentHashMap.newKeySet();

  private NotebookSessions(SparkSession root, Map<String, String> settings) {
    this.settings = settings;
    gateway = new Py4JServer(root.sparkContext().conf());
    ((ClientServer) gateway.server()).getJavaServer().addListener(new DefaultGatewayServerListener() {
      @Override
      public void connectionStarted(Py4JServerConnection connection) {
        connections.add(connection);
      }

      @Override
      public void connectionStopped(Py4JServerConnection connection) {
        connections.remove(connection);
      }
    });
    KnownCallbacks.install(gateway);
    gateway.start();
    addSession(root);
  }

  /** A session and a gateway for one notebook. The settings are those of the session, such as its catalogs. */
  public static Py4JServer open(String key, SparkSession root, Map<String, String> settings) {
    LineageListener.listen(root.sparkContext());
    NotebookSessions opened = new NotebookSessions(root, Map.copyOf(settings));
    OPEN.put(key, opened);
    return opened.gateway;
  }

  /** The notebook's first session, for the process that attaches. */
  public static SparkSession session(String key) {
    return OPEN.get(key).sessions.get(0);
  }

  /** Another session of the same notebook; it is cleaned up with the first. */
  public static SparkSession newSession(String key) {
    NotebookSessions notebook = OPEN.get(key);
    return notebook.addSession(notebook.sessions.get(0));
  }

  /**
   * Stops the streams and cancels the jobs of a notebook whose process has ended, and shuts its gateway. What its
   * statements read and wrote is in its file then.
   *
   * @return whether nothing of it goes on; false when something would not stop within the time
   */
  public static boolean close(String key, long timeoutMillis) throws InterruptedException {
    NotebookSessions notebook = OPEN.remove(key);
    if (notebook == null) {
      return true;
    }
    long deadline = System.nanoTime() + timeoutMillis * 1_000_000;
    boolean quiet = notebook.interrupt();
    while (!quiet && System.nanoTime() < deadline) {
      Thread.sleep(PAUSE_MILLIS);
      quiet = notebook.interrupt();
    }
    notebook.gateway.shutdown();
    LineageListener.catchUp(notebook.sessions.get(0).sparkContext(), LINEAGE_MILLIS);
    if (OPEN.isEmpty()) {
      notebook.sessions.get(0).catalog().clearCache();
    }
    return quiet;
  }

  /** The number of active streams of all notebooks, for tests and for the health of the engine. */
  public static int activeStreams() {
    return OPEN.values().stream().mapToInt(NotebookSessions::streams).sum();
  }

  private int streams() {
    return sessions.stream().mapToInt(session -> session.streams().active().length).sum();
  }

  private SparkSession addSession(SparkSession from) {
    SparkSession session = from.newSession();
    settings.forEach((name, value) -> session.conf().set(name, value));
    sessions.add(session);
    return session;
  }

  /**
   * One round of stopping. A call from the dead process may still be between two jobs: its connection is counted until
   * the call has come back, and the next round stops what it started meanwhile.
   */
  private boolean interrupt() {
    boolean idle = connections.isEmpty();
    boolean stopped = true;
    for (SparkSession session : sessions) {
      for (StreamingQuery stream : session.streams().active()) {
        stopped &= stop(stream);
      }
      session.interruptAll();
    }
    return stopped && idle;
  }

  private static boolean stop(StreamingQuery stream) {
    try {
      stream.stop();
      return true;
    } catch (java.util.concurrent.TimeoutException stillRunning) {
      return false;
    }
  }
}
