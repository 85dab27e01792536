package databricks_bridge.local;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.View;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A view's definition as one JSON file. */
final class ViewFile {
  static final String SUFFIX = ".view.json";

  private static final ObjectMapper JSON = new ObjectMapper();

  private ViewFile() {}

  static void write(Path file, View view) {
    ObjectNode node = JSON.createObjectNode();
    node.put("query", view.queryText());
    node.put("catalog", view.currentCatalog());
    node.set("namespace", JSON.valueToTree(view.currentNamespace()));
    node.set("columns", JSON.valueToTree(view.queryColumnNames()));
    node.put("schema", view.schema().json());
    node.put("schema_mode", view.schemaMode());
    node.set("configs", JSON.valueToTree(view.sqlConfigs()));
    node.set("properties", JSON.valueToTree(view.properties()));
    try {
      Path whole = Files.createTempFile(file.getParent(), ".", ".writing");
      Files.write(whole, JSON.writerWithDefaultPrettyPrinter().writeValueAsBytes(node));
      Files.move(whole, file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static View read(Path file) {
    try {
      JsonNode node = JSON.readTree(file.toFile());
      View.Builder view = new View.Builder();
      view.withSchema((StructType) DataType.fromJson(node.get("schema").asText()));
      view.withProperties(JSON.convertValue(node.get("properties"), new TypeReference<Map<String, String>>() {}));
      view.withQueryText(node.get("query").asText());
      view.withCurrentCatalog(node.get("catalog").textValue());
      view.withCurrentNamespace(JSON.convertValue(node.get("namespace"), String[].class));
      view.withQueryColumnNames(JSON.convertValue(node.get("columns"), String[].class));
      view.withSqlConfigs(JSON.convertValue(node.get("configs"), new TypeReference<Map<String, String>>() {}));
      view.withSchemaMode(node.get("schema_mode").textValue());
      return view.build();
    } catch (IOException error) {
      throw new UncheckedIOException("The view in " + file + " cannot be read", error);
    }
  }
}
