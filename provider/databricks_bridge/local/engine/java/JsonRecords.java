package databricks_bridge.local;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.cfg.JsonNodeFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.api.java.UDF4;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What Auto Loader does with JSON beside Spark's own parser: a text's records, and what of a record its schema does not
 * take, at every depth. Spark parses the values; here the text is compared with what Spark has made of it.
 */
public final class JsonRecords {
  private static final String CORRUPT = "_corrupt_record";
  private static final String FILE = "_file_path";

  /** As lenient as any option of Spark's parser may be: what that does not take is rescued. */
  private static final ObjectMapper JSON =
      JsonMapper.builder()
          .enable(JsonReadFeature.values())
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .disable(JsonNodeFeature.STRIP_TRAILING_BIGDECIMAL_ZEROES)
          .build();

  private static final Map<String, DataType> SCHEMAS = new ConcurrentHashMap<>();

  private JsonRecords() {}

  private static DataType schema(String json) {
    return SCHEMAS.computeIfAbsent(json, DataType::fromJson);
  }

  /** The records of a text: its own, or the elements of an array. What is no JSON is one record, as it is. */
  public static final class Split implements UDF1<String, String[]> {
    @Override
    public String[] call(String text) {
      JsonNode root = parsed(text);
      if (root == null || !root.isArray()) {
        return new String[] {text};
      }
      List<String> records = new ArrayList<>();
      root.forEach(element -> records.add(element.toString()));
      return records.toArray(String[]::new);
    }
  }

  /** The fields of a record that its schema (as JSON) lacks, by their full names, sorted; null where there are none. */
  public static final class Unknown implements UDF2<String, String, String> {
    @Override
    public String call(String record, String schema) {
      JsonNode root = parsed(record);
      if (root == null || !root.isObject()) {
        return null;
      }
      TreeSet<String> names = new TreeSet<>();
      collect(root, schema(schema), "", names);
      return names.isEmpty() ? null : String.join(", ", names);
    }

    private static void collect(JsonNode value, DataType type, String prefix, TreeSet<String> names) {
      if (type instanceof StructType struct && value.isObject()) {
        for (Map.Entry<String, JsonNode> one : value.properties()) {
          StructField field = field(struct, one.getKey());
          if (field != null) {
            collect(one.getValue(), field.dataType(), prefix + one.getKey() + ".", names);
          } else if (!inAnotherCase(struct, one.getKey())) {
            names.add(prefix + one.getKey());
          }
        }
      } else if (type instanceof ArrayType array && value.isArray()) {
        value.forEach(element -> collect(element, array.elementType(), prefix, names));
      } else if (type instanceof MapType map && value.isObject()) {
        value.forEach(element -> collect(element, map.valueType(), prefix, names));
      }
    }
  }

  /** What Spark's parse of a record has not kept, as JSON with the file's path; null where it has kept everything. */
  public static final class Rescued implements UDF4<String, String, String, String, String> {
    @Override
    public String call(String record, String made, String schema, String file) {
      JsonNode root = parsed(record);
      ObjectNode lost = JSON.createObjectNode();
      if (root == null || !root.isObject() || made == null) {
        lost.put(CORRUPT, record);
      } else {
        JsonNode left = left(root, parsed(made), schema(schema));
        if (left == null) {
          return null;
        }
        lost.setAll((ObjectNode) left);
      }
      return lost.put(FILE, file).toString();
    }

    /** The part of `value` that is not in `made`, or null. Of an array it is the whole. */
    private static JsonNode left(JsonNode value, JsonNode made, DataType type) {
      if (value.isNull()) {
        return null;
      }
      if (made == null || made.isNull()) {
        return value;
      }
      if (type instanceof StructType struct) {
        return value.isObject() && made.isObject() ? leftOfObject(value, made, struct, null) : value;
      }
      if (type instanceof MapType map) {
        return value.isObject() && made.isObject() ? leftOfObject(value, made, null, map.valueType()) : value;
      }
      if (type instanceof ArrayType array) {
        return value.isArray() && made.isArray() && !loses(value, made, array.elementType()) ? null : value;
      }
      return null;
    }

    private static boolean loses(JsonNode value, JsonNode made, DataType element) {
      Iterator<JsonNode> others = made.iterator();
      for (JsonNode one : value) {
        if (!others.hasNext() || left(one, others.next(), element) != null) {
          return true;
        }
      }
      return false;
    }

    private static ObjectNode leftOfObject(JsonNode value, JsonNode made, StructType struct, DataType ofAll) {
      ObjectNode lost = JSON.createObjectNode();
      for (Map.Entry<String, JsonNode> one : value.properties()) {
        StructField field = struct == null ? null : field(struct, one.getKey());
        DataType type = struct == null ? ofAll : field == null ? null : field.dataType();
        JsonNode left = type == null ? one.getValue() : left(one.getValue(), made.get(one.getKey()), type);
        if (left != null) {
          lost.set(one.getKey(), left);
        }
      }
      return lost.isEmpty() ? null : lost;
    }
  }

  private static JsonNode parsed(String text) {
    try {
      JsonNode root = JSON.readTree(text);
      return root == null || root.isMissingNode() ? null : root;
    } catch (JsonProcessingException noJson) {
      return null;
    }
  }

  private static StructField field(StructType struct, String name) {
    return struct.getFieldIndex(name).isEmpty() ? null : struct.apply(name);
  }

  private static boolean inAnotherCase(StructType struct, String name) {
    for (String known : struct.fieldNames()) {
      if (known.equalsIgnoreCase(name)) {
        return true;
      }
    }
    return false;
  }
}
