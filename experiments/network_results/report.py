"""What a network that is up has carried, read off it and written to a results folder."""

from pathlib import Path

from weft.experiments.network_results.document import NetworkResults
from weft.experiments.network_results.gather import UpNetwork, gather
from weft.experiments.network_results.page import write_results
from weft.experiments.runs.folder import ResultsFolder


def report(net: UpNetwork, folder: Path | None) -> NetworkResults:
    """Return what a network has carried, and write it to a folder, if any, which is claimed before
    anything is read. Raises InputError where the folder cannot be written."""
    if folder is None:
        return gather(net)
    place = ResultsFolder(folder, "name another folder")
    place.make(captures=False, traces=False)
    try:
        results = gather(net)
        write_results(results, place)
    finally:
        place.close()
    return results
