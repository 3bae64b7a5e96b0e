# SPDX-License-Identifier: Apache-2.0
"""`cohere`, whose ClientV2 has the rerank of `/v2/rerank`."""

import asyncio

import cohere

from checks import BASE_URL, RERANKER, Checks, holds, same

ASK = {"model": RERANKER, "query": "Where does the dunlin live?",
       "documents": ["It eats worms.", "It lives at the mudflats.", "The ferry is blue."]}
client = cohere.ClientV2(api_key="unused", base_url=BASE_URL, timeout=30)
checks = Checks()


@checks.add("rerank")
def rerank():
    answer = client.rerank(**ASK)
    scores = [result.relevance_score for result in answer.results]
    same(scores, sorted(scores, reverse=True), "scores")
    same(sorted(result.index for result in answer.results), [0, 1, 2])
    best = client.rerank(**ASK, top_n=1).results
    same([(result.index, result.relevance_score) for result in best],
         [(answer.results[0].index, answer.results[0].relevance_score)], "the best alone")
    same(client.rerank(**ASK, max_tokens_per_doc=64).results, answer.results, "of documents that are shorter")
    holds(answer.id, "no id")


@checks.add("rerank, async")
async def rerank_async():
    own = cohere.AsyncClientV2(api_key="unused", base_url=BASE_URL, timeout=30)
    answers = await asyncio.gather(*(own.rerank(**ASK) for _ in range(4)))
    whole = [(result.index, result.relevance_score) for result in client.rerank(**ASK).results]
    same([[(result.index, result.relevance_score) for result in answer.results] for answer in answers], [whole] * 4)


@checks.add("errors")
def errors():
    def refused(kind, **changes):
        try:
            client.rerank(**{**ASK, **changes})
        except kind as error:
            return error
        raise AssertionError(f"{changes} was accepted")
    same(refused(cohere.errors.NotFoundError, model="nothing").status_code, 404)
    same(refused(cohere.errors.BadRequestError, documents=[]).status_code, 400)


checks.run()
