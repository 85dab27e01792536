package databricks_bridge.local;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Names that are folders, and what is done to folders. */
final class Folders {
  private Folders() {}

  static String lower(String identifier) {
    return identifier.toLowerCase(Locale.ROOT);
  }

  /** Whether the name can be one folder: delta.`/some/path` comes to a catalog as a table's name too, and is none. */
  static boolean isPlain(String identifier) {
    return !identifier.isEmpty() && !identifier.startsWith(".") && identifier.indexOf('/') < 0;
  }

  static String fileName(Path path) {
    return path.getFileName().toString();
  }

  /** What a person sees in the folder, sorted. */
  static Stream<Path> children(Path folder) {
    try (Stream<Path> paths = Files.list(folder)) {
      List<Path> visible = paths.filter(path -> !fileName(path).startsWith(".")).sorted().collect(Collectors.toList());
      return visible.stream();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static void move(Path from, Path to) {
    try {
      Files.move(from, to);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static void deleteTree(Path folder) {
    try (Stream<Path> paths = Files.walk(folder)) {
      for (Path path : paths.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
        Files.deleteIfExists(path);
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
