package databricks_bridge.local;

import com.sun.management.GarbageCollectionNotificationInfo;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import javax.management.Notification;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

/**
 * Ends this JVM when its heap is full, before it spends minutes in collections that free next to nothing.
 *
 * <p>The serial collector has no limit of its own for that: only an allocation that fails for good throws
 * OutOfMemoryError, and `-XX:+ExitOnOutOfMemoryError` ends the JVM at the first of them.
 */
public final class HeapWatch {
  /** What `-XX:+ExitOnOutOfMemoryError` ends with as well. */
  private static final int OUT_OF_MEMORY = 3;

  /** So many full collections in a row that leave so small a part of the heap free: it will not get better. */
  private static final int COLLECTIONS = 3;
  private static final double LEAST_FREE = 0.1;

  private static int fruitless;

  private HeapWatch() {}

  /** From here on, in a thread of the JVM's own. */
  public static void begin() {
    for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
      ((NotificationEmitter) collector).addNotificationListener((told, nothing) -> look(told), null, null);
    }
  }

  private static synchronized void look(Notification told) {
    GarbageCollectionNotificationInfo info =
        GarbageCollectionNotificationInfo.from((CompositeData) told.getUserData());
    if (!info.getGcAction().equals("end of major GC")) {
      return;
    }
    long most = Runtime.getRuntime().maxMemory();
    // Metaspace and the like are among the pools, and not of the heap.
    long used = ManagementFactory.getMemoryPoolMXBeans().stream()
        .filter(pool -> pool.getType() == java.lang.management.MemoryType.HEAP)
        .mapToLong(pool -> info.getGcInfo().getMemoryUsageAfterGc().get(pool.getName()).getUsed())
        .sum();
    fruitless = most - used < LEAST_FREE * most ? fruitless + 1 : 0;
    if (fruitless == COLLECTIONS) {
      System.err.printf("%d MB of the heap's %d MB stay in use.%n", used >> 20, most >> 20);
      Runtime.getRuntime().halt(OUT_OF_MEMORY);
    }
  }
}
