"""`lockstep.Client` and `lockstep.AsyncClient`: the words of `lockstep api`, in Python.

    import lockstep
    with lockstep.Client() as client:
        run = client.start(workload="gpt", steps=150, faults=["thermal:rank=2,factor=1.5"])
        client.wait(run["run"])
        print(client.verdict(run["run"])["sentence"])

Where the API is and which token it takes is told by arguments, or by LOCKSTEP_API_URL and
LOCKSTEP_API_TOKEN_FILE or LOCKSTEP_API_TOKEN. Needs httpx (the extra `api`).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from lockstep.workloads.sdk.client import calls
from lockstep.workloads.sdk.client.calls import ApiError, Call, Form, Tree, WaitError, endpoint

__all__ = ["ApiError", "AsyncClient", "Client", "WaitError"]

T = TypeVar("T")
GOING = frozenset({"queued", "running", "stopping", "analyzing", "reporting"})
"""States of a run that is not over."""
LOOK_SECONDS = 0.5


class Client:
    """Asks the API; every method raises ApiError with its sentence where it refuses.

    Args:
        url: Of the API; by default LOCKSTEP_API_URL, else http://127.0.0.1:9412.
        token: By default what LOCKSTEP_API_TOKEN says.
        token_file: File with the token; by default LOCKSTEP_API_TOKEN_FILE.
        timeout: Seconds for one answer.
        transport: Instead of a connection, as for tests.

    Raises:
        ValueError: The address is none, or no token is known.
        OSError: The token's file cannot be read.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None,
        token_file: str | Path | None = None, timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        where = endpoint(url, token, token_file)
        self.url = where.url
        self._http = httpx.Client(
            base_url=where.url, timeout=timeout, transport=transport,
            trust_env=where.may_be_proxied,
            headers={"Authorization": f"Bearer {where.token}"},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Close its connections; runs go on."""
        self._http.close()

    def capacity(self) -> Tree:
        """What this machine can run: ranks, workloads, faults that it cannot inject; what waits."""
        return self._do(calls.capacity())

    def runs(self, state: str | None = None, limit: int | None = None) -> list[Tree]:
        """Runs, the newest first; of one state, as `running`, `failed` or `ended`."""
        return self._do(calls.runs(state, limit))

    def run(self, name: str) -> Tree:
        """One run: its state, and of one that failed the ranks, nodes, reason and last lines."""
        return self._do(calls.run(name))

    def start(self, **settings: Any) -> Tree:
        """Start a run, or queue it behind the one that goes on; settings: docs/reference/api.md."""
        return self._do(calls.start(settings))

    def stop(self, name: str) -> Tree:
        """Ask a run to close its archive and end; `wait` tells when it has."""
        return self._do(calls.stop(name))

    def log(self, name: str) -> list[str]:
        """The last lines that a run said, of one that this server started."""
        return self._do(calls.log(name))

    def delete(self, name: str) -> None:
        """Remove a run that is over, with its archive."""
        self._do(calls.delete(name))

    def wait(self, name: str, timeout: float = 3600.0) -> Tree:
        """The run once it is over.

        Raises:
            WaitError: It was not in `timeout` seconds; it goes on.
        """
        until = time.monotonic() + timeout
        while (status := self.run(name))["state"] in GOING:
            if (left := until - time.monotonic()) <= 0:
                raise _late(name, timeout)
            time.sleep(min(LOOK_SECONDS, left))
        return status

    def series(self, name: str) -> list[Tree]:
        """Which series a run has, without their samples."""
        return self._do(calls.series(name))

    def metrics(
        self, name: str, metric: str | Sequence[str] | None = None, *, rank: int | None = None,
        node: str | None = None, since: float | str | None = None,
        until: float | str | None = None, last_n: int | None = None, summarize: int | None = None,
    ) -> list[Tree]:  # fmt: skip
        """Series of a run with their points.

        Args:
            name: Of the run.
            metric: Names of metrics; None = all.
            rank, node: Whom they are about.
            since, until: Unix seconds, or ISO 8601.
            last_n: The newest so many samples of each series.
            summarize: So many windows of each series; every sample is in exactly one.
        """
        query = calls.chosen(metric, rank, node, since, until, last_n, summarize)
        return self._do(calls.metrics(name, query))

    def download_metrics(
        self, name: str, form: Form = "parquet", metric: str | Sequence[str] | None = None, *,
        rank: int | None = None, node: str | None = None, since: float | str | None = None,
        until: float | str | None = None, last_n: int | None = None, summarize: int | None = None,
    ) -> bytes:  # fmt: skip
        """The same as a file: `parquet`, a `zip` of one JSON a metric, or `json`."""
        query = calls.chosen(metric, rank, node, since, until, last_n, summarize)
        return self._do(calls.download(name, form, query))

    def post_metrics(self, name: str, samples: Sequence[Mapping[str, Any]]) -> int:
        """Add samples of your own to a run: `{"metric", "value", "time", "rank", "node"}`.

        Returns:
            How many were taken: all, or none and an ApiError.
        """
        return self._do(calls.post_metrics(name, samples))

    def verdict(self, name: str) -> Tree:
        """The verdict of a run (docs/reference/verdict.md)."""
        return self._do(calls.verdict(name))

    def results(self, name: str) -> Tree:
        """What a run found out beside its steps: evaluations, goal, throughput."""
        return self._do(calls.results(name))

    def bench_results(self, bench: str | None = None) -> list[Tree]:
        """Rows of `lockstep bench`, of all benchmarks or of one."""
        return self._do(calls.bench_results(bench))

    def findings(self, name: str | None = None) -> list[Tree]:
        """What is wrong, where and since when: of a run, or of all, the newest first."""
        return self._do(calls.findings(name))

    def _do(self, call: Call[T]) -> T:
        try:
            answer = self._http.request(call.method, call.path, params=call.query, json=call.body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _away(self.url, error) from error
        return _read(call, answer)


class AsyncClient:
    """The same words for asyncio; `Client` says what they do.

    Raises:
        ValueError: The address is none, or no token is known.
        OSError: The token's file cannot be read.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None,
        token_file: str | Path | None = None, timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        where = endpoint(url, token, token_file)
        self.url = where.url
        self._http = httpx.AsyncClient(
            base_url=where.url, timeout=timeout, transport=transport,
            trust_env=where.may_be_proxied,
            headers={"Authorization": f"Bearer {where.token}"},
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()

    async def close(self) -> None:
        """As Client."""
        await self._http.aclose()

    async def capacity(self) -> Tree:
        """As Client."""
        return await self._do(calls.capacity())

    async def runs(self, state: str | None = None, limit: int | None = None) -> list[Tree]:
        """As Client."""
        return await self._do(calls.runs(state, limit))

    async def run(self, name: str) -> Tree:
        """As Client."""
        return await self._do(calls.run(name))

    async def start(self, **settings: Any) -> Tree:
        """As Client."""
        return await self._do(calls.start(settings))

    async def stop(self, name: str) -> Tree:
        """As Client."""
        return await self._do(calls.stop(name))

    async def log(self, name: str) -> list[str]:
        """As Client."""
        return await self._do(calls.log(name))

    async def delete(self, name: str) -> None:
        """As Client."""
        await self._do(calls.delete(name))

    async def wait(self, name: str, timeout: float = 3600.0) -> Tree:
        """As Client."""
        until = time.monotonic() + timeout
        while (told := await self.run(name))["state"] in GOING:
            if (left := until - time.monotonic()) <= 0:
                raise _late(name, timeout)
            await asyncio.sleep(min(LOOK_SECONDS, left))
        return told

    async def series(self, name: str) -> list[Tree]:
        """As Client."""
        return await self._do(calls.series(name))

    async def metrics(
        self, name: str, metric: str | Sequence[str] | None = None, *, rank: int | None = None,
        node: str | None = None, since: float | str | None = None,
        until: float | str | None = None, last_n: int | None = None, summarize: int | None = None,
    ) -> list[Tree]:  # fmt: skip
        """As Client."""
        query = calls.chosen(metric, rank, node, since, until, last_n, summarize)
        return await self._do(calls.metrics(name, query))

    async def download_metrics(
        self, name: str, form: Form = "parquet", metric: str | Sequence[str] | None = None, *,
        rank: int | None = None, node: str | None = None, since: float | str | None = None,
        until: float | str | None = None, last_n: int | None = None, summarize: int | None = None,
    ) -> bytes:  # fmt: skip
        """As Client."""
        query = calls.chosen(metric, rank, node, since, until, last_n, summarize)
        return await self._do(calls.download(name, form, query))

    async def post_metrics(self, name: str, samples: Sequence[Mapping[str, Any]]) -> int:
        """As Client."""
        return await self._do(calls.post_metrics(name, samples))

    async def verdict(self, name: str) -> Tree:
        """As Client."""
        return await self._do(calls.verdict(name))

    async def results(self, name: str) -> Tree:
        """As Client."""
        return await self._do(calls.results(name))

    async def bench_results(self, bench: str | None = None) -> list[Tree]:
        """As Client."""
        return await self._do(calls.bench_results(bench))

    async def findings(self, name: str | None = None) -> list[Tree]:
        """As Client."""
        return await self._do(calls.findings(name))

    async def _do(self, call: Call[T]) -> T:
        try:
            answer = await self._http.request(
                call.method, call.path, params=call.query, json=call.body
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _away(self.url, error) from error
        return _read(call, answer)


def _read(call: Call[T], answer: httpx.Response) -> T:
    if answer.status_code >= httpx.codes.BAD_REQUEST:
        raise calls.refused(answer.status_code, answer.content)
    return call.read(answer.content)


def _away(url: str, error: Exception) -> ApiError:
    return ApiError(0, "unreachable", f"{url} does not answer: {error or type(error).__name__}")


def _late(name: str, timeout: float) -> WaitError:
    return WaitError(0, "timeout", f"{name} was not over after {timeout:g} s; it goes on")
