"""What stands where a request for dumps is made: in a folder of many, anybody may be first."""

import os
import stat
from pathlib import Path

from lockstep.collector.contract.flight_recorder import request_name
from lockstep.collector.readings.source import RankProcess, Rejected, SourceError

DENIED = "request_denied"
"""The reason of what has the name of a request, and lets nobody make one."""


def check_request(name: str, status: os.stat_result) -> None:
    """It is a file of one name, which a link to somebody's file has not.

    Raises:
        SourceError: It is another thing.
    """
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise SourceError(DENIED, f"{name} is there, and is no request")


def denied(rank: RankProcess) -> Rejected | None:
    """Why the rank cannot be asked for its dump, though somebody may write to its folder.

    Who asks is root, the rank's user or we: what another user made under the name of the request,
    only root can make anew by its time.
    """
    if rank.folder is None:
        return None
    path = Path(rank.folder) / request_name(rank.run)
    try:
        status = os.lstat(path)
        check_request(str(path), status)
    except OSError:  # no request, as nearly always
        return None
    except SourceError as error:
        return Rejected.of(error)
    if status.st_uid in (0, rank.user, us := os.geteuid()) or us == 0:
        return None
    return Rejected(DENIED, f"{path} is of user {status.st_uid}: nobody can ask for dumps")
