"""What the routes of one server work with."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from synth_train.domain.model.hosting import Refusal
from synth_train.domain.model.jobs import JobId
from synth_train.domain.usecases.hosting.service import Hosting

UPLOADS_AT_ONCE = 16
"""Each holds a thread as long as it lasts."""

FOLLOWERS_AT_ONCE = 200
"""Event streams that are open at the same time."""

_LOG_BLOCK = 256 << 10


class Serving:
    """One server: hosting, and what belongs to the server itself.

    Args:
        log: told a line at a time.
        log_file: where what the training of a job has written is kept; None: nowhere.
    """

    def __init__(
        self, hosting: Hosting, *, log: Callable[[str], None], log_file: Callable[[JobId], Path] | None = None
    ) -> None:
        self.hosting = hosting
        self.closing = threading.Event()
        """Set when the server is about to end: streams end, too."""
        self._log = log
        self._log_file = log_file
        self.uploading = ThreadPoolExecutor(UPLOADS_AT_ONCE, thread_name_prefix="upload")
        """Threads for uploads: those of the routes are not to wait for slow clients."""
        self._uploads = threading.BoundedSemaphore(UPLOADS_AT_ONCE)
        self.followers = 0
        """Event streams that are open; counted by the server's own thread only."""

    def bug(self, error: Exception) -> None:
        """Write down an exception that should not have been."""
        self._log("".join(traceback.format_exception(error)))

    @contextmanager
    def an_upload(self) -> Iterator[None]:
        """A place for an upload.

        Raises:
            Refusal: 429 when there is none.
        """
        if not self._uploads.acquire(blocking=False):
            raise Refusal(429, "too_many", f"there are {UPLOADS_AT_ONCE} uploads already; try again later")
        try:
            yield
        finally:
            self._uploads.release()

    def refuse_followers(self) -> None:
        """Raises:
        Refusal: 429 when there are as many event streams as there may be.
        """
        if self.followers >= FOLLOWERS_AT_ONCE:
            raise Refusal(429, "too_many", f"there are {FOLLOWERS_AT_ONCE} event streams already; try again later")

    def log_of(self, job_id: JobId, after: int) -> tuple[str, int]:
        """What stands in the log of a job behind its byte `after`, and where to go on from."""
        if self._log_file is None:
            return "", after
        try:
            with self._log_file(job_id).open("rb") as file:
                file.seek(after)
                block = file.read(_LOG_BLOCK)
        except FileNotFoundError:
            return "", after
        return block.decode(errors="replace"), after + len(block)
