# SPDX-License-Identifier: Apache-2.0
"""The asyncio client against the server: its answers are the synchronous client's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from conftest import WAIT_S, Server

from dunlin_client import AsyncClient, CancelledError, Client, InvalidArgumentError


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 2 * WAIT_S))


async def wait_for_cancelled(server: Server, count: float) -> None:
    await asyncio.to_thread(server.wait_for_cancelled, count)


def test_answers_as_the_synchronous_client(server: Server, client: Client) -> None:
    async def work() -> None:
        async with AsyncClient(server.grpc, model="demo", timeout_s=WAIT_S) as own:
            several = await asyncio.gather(*(own.generate("The", max_tokens=9, seed=seed) for seed in range(4)))
            for seed, answer in enumerate(several):
                assert answer.token_ids == client.generate("The", max_tokens=9, seed=seed).token_ids
            chat = await own.chat("What does the dunlin eat?", temperature=0, max_tokens=60)
            assert chat.text == client.chat("What does the dunlin eat?", temperature=0, max_tokens=60).text
            stream = own.stream("The", max_tokens=9, seed=1)
            assert "".join([chunk.text async for chunk in stream]) == several[1].text
            assert (await stream.result()).usage == several[1].usage
            embedded = await own.embed("A bird.", model="encoder")
            assert embedded.vectors == client.embed("A bird.", model="encoder").vectors
            ranked = await own.rerank("birds", ["A dunlin.", "A ship."], model="reranker")
            assert ranked.results == client.rerank("birds", ["A dunlin.", "A ship."], model="reranker").results
            assert await own.profiles() == client.profiles()
            assert {model.name for model in await own.models()} == {model.name for model in client.models()}
            with pytest.raises(InvalidArgumentError) as bad:
                await own.generate("The", top_p=2)
            assert bad.value.field == "sampling.top_p"

    run(work())


def test_leaving_the_loop_cancels(server: Server) -> None:
    async def work() -> None:
        async with AsyncClient(server.grpc, model="demo", timeout_s=WAIT_S) as own:
            before = server.cancelled()
            left = own.stream("The", max_tokens=900, ignore_eos=True)
            async for _ in left:
                break
            await wait_for_cancelled(server, before + 1)
            async with own.stream("The", max_tokens=900, ignore_eos=True) as stream:
                async for _ in stream:
                    stream.cancel()
                    break
                with pytest.raises(CancelledError):
                    await stream.result()
            await wait_for_cancelled(server, before + 2)

    run(work())


def test_a_cancelled_task_cancels_its_call(server: Server) -> None:
    async def work() -> None:
        async with AsyncClient(server.grpc, model="demo", timeout_s=WAIT_S) as own:
            before = server.cancelled()
            stream = own.stream("The", max_tokens=900, ignore_eos=True)
            begun = asyncio.Event()

            async def read() -> None:
                async for _ in stream:
                    begun.set()

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await wait_for_cancelled(server, before + 1)

    run(work())
