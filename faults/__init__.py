"""Generated schedules of faults over the real protocol code; see `faults.model` for which fault may strike where."""
