"""Faults that users of neighbouring projects reported, against the local workspace's own triggers."""

from __future__ import annotations

import os

from tests.local.triggers.site import Site, on_files


async def test_D11_one_file_that_is_told_with_two_times_is_one_arrival(site: Site) -> None:
    """It is known by its path alone: Databricks' own trigger takes an overwrite for no arrival, whatever its size is then."""
    site.jobs.put(1, on_files())
    await site.until(60)
    file = site.drop("a.csv")
    await site.until(120)
    assert site.fired() == [1]
    os.utime(file, (site.clock.at + 2, site.clock.at + 2))
    await site.until(300)
    file.write_text("another content, of another size")
    await site.until(600)
    assert site.fired() == [1]
    site.drop("b.csv")
    await site.until(700)
    assert site.fired() == [1, 1]
