package databricks_bridge.local;

import java.lang.reflect.Field;
import java.net.InetAddress;
import javax.net.SocketFactory;
import org.apache.spark.api.python.Py4JServer;
import py4j.ClientServer;
import py4j.Gateway;
import py4j.GatewayServer;
import py4j.Py4JJavaServer;
import py4j.Py4JPythonClient;
import py4j.PythonClient;

/** Calls back into a notebook's process with the secret of its gateway. Py4J's own client forgets it with its first port. */
final class KnownCallbacks extends PythonClient {
  private KnownCallbacks(Gateway gateway, InetAddress address, int port, Py4JJavaServer server, int readTimeout,
      String secret) {
    super(gateway, null, port, address, DEFAULT_MIN_CONNECTION_TIME, DEFAULT_MIN_CONNECTION_TIME_UNIT,
        SocketFactory.getDefault(), server, true, readTimeout, secret);
  }

  /** For a gateway that has not started yet. */
  static void install(Py4JServer server) {
    ClientServer both = (ClientServer) server.server();
    Gateway gateway = ((GatewayServer) both.getJavaServer()).getGateway();
    PythonClient before = (PythonClient) gateway.getCallbackClient();
    Py4JPythonClient known = new KnownCallbacks(
        gateway, before.getAddress(), before.getPort(), before.getJavaServer(), before.getReadTimeout(), server.secret());
    try {
      Field held = Gateway.class.getDeclaredField("cbClient");
      held.setAccessible(true);
      held.set(gateway, known);
    } catch (ReflectiveOperationException otherPy4j) {
      throw new IllegalStateException("this Py4J keeps its callback client elsewhere", otherPy4j);
    }
  }

  @Override
  public Py4JPythonClient copyWith(InetAddress address, int port) {
    return new KnownCallbacks(gateway, address, port, getJavaServer(), getReadTimeout(), authToken);
  }
}
