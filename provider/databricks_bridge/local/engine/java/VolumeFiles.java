package databricks_bridge.local;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configurable;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.PathFilter;

/**
 * The files that Spark finds in a volume: what a link takes out of the volume is not among them. Files that are in no
 * volume are none of its business.
 */
public final class VolumeFiles implements PathFilter, Configurable, Serializable {
  private static final long serialVersionUID = 1;
  private static final int NAMES_OF_A_VOLUME = 3;

  /** A session's setting: the folder of all volumes. */
  private static final String ROOT = "spark.databricks_bridge.volumes_root";

  private String root;
  private transient Configuration settings;

  @Override
  public void setConf(Configuration settings) {
    this.settings = settings;
    root = settings.get(ROOT);
  }

  @Override
  public Configuration getConf() {
    return settings;
  }

  @Override
  public boolean accept(org.apache.hadoop.fs.Path file) {
    Path path = Paths.get(file.toUri().getPath());
    Path volumes = Paths.get(root);
    if (!path.startsWith(volumes) || path.getNameCount() <= volumes.getNameCount() + NAMES_OF_A_VOLUME) {
      return true;
    }
    for (Path part = path; !part.equals(volumes); part = part.getParent()) {
      if (Files.isSymbolicLink(part)) {
        return stays(path, volumes);
      }
    }
    return true;
  }

  private static boolean stays(Path path, Path volumes) {
    Path volume = volumes.relativize(path).subpath(0, NAMES_OF_A_VOLUME);
    try {
      return path.toRealPath().startsWith(volumes.toRealPath().resolve(volume));
    } catch (IOException notThere) {
      return false;
    }
  }
}
