# SPDX-License-Identifier: Apache-2.0
"""Ranks, replicas and fronts end in every way at random moments under mixed requests, with each instruction set; every answer equals
that of an undisturbed server.

usage: random_trials_test.py [TRIALS | --long]   20 trials, or 300 and hang-ups under load with --long or PHALANX_TEST_LONG=1.
PHALANX_TEST_SEED repeats topologies, requests and faults of a run, though not what the moments of the faults hit.
"""
import concurrent.futures
import functools
import http.client
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import trial_settings  # noqa: E402
from instruction_sets import instruction_sets  # noqa: E402
from phalanx_server import LONG_PROMPT, ROOT, TEMPORARY, TINY, Server, Stream, counted, eventually, main  # noqa: E402

TRIALS, IS_LONG, SEED = trial_settings.read(20, 300)

# Of weights and of the KV cache.
FORMATS = (("bf16", "bf16"), ("int4", "int8"), ("Q4_K_M", "int8"), ("int8-g32", "bf16"), ("int8", "int8"))
GGUF_FORMATS = {"Q4_K_M": 2}  # and the KV heads of their model
TOPOLOGIES = [(dp, tp) for dp in (1, 2, 3) for tp in (1, 2, 3)]
TRIALS_PER_SERVER = 4  # so that the usual number has a server of each format
KINDS = ["rank"] * 5 + ["replica"] * 2 + ["front"] * 4
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM, signal.SIGSTOP]
ANSWER_SECONDS = 110  # below the time limit of a client's socket
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def requests():
    """(path, body): greedy and seeded, with choices, logprobs, penalties, stops; whole and streamed."""
    made = []
    for i in range(24):
        first = 100 + 10 * i
        text = [f"count from {first} to {first + 30}", "what is 17 + 25?", f"count from {i} to {i + 60}", LONG_PROMPT][i % 4]
        path = TEXT if i % 7 == 3 else CHAT
        body = {"model": "phalanx-tiny", "max_tokens": 16 if text == LONG_PROMPT else 60 + 10 * (i % 10)}
        body.update({"prompt": text} if path == TEXT else {"messages": [{"role": "user", "content": text}]})
        body["temperature"] = 0  # the built-in model's default, which a GGUF file cannot have
        if i % 3:
            body.update(temperature=0.4 + i / 24, seed=1000 + i, **({"top_p": 0.9} if i % 2 else {"top_k": 30, "min_p": 0.01}))
        if i % 5 == 1:
            body.update(n=2 + i % 3)
        if i % 4 == 2:
            body.update({"logprobs": True, "top_logprobs": 3} if path == CHAT else {"logprobs": 3})
        if i % 6 == 4:
            body.update(repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2)
        if i % 6 == 2:
            body.update(stop=[f" {first + 12} ", "77 "])
        if i % 2:
            body.update(stream=True, stream_options={"include_usage": True})
        made.append((path, body))
    return made


REQUESTS = requests()


def usage_of(answer):
    usage = answer.get("usage") or {}
    return [usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")]


def ask(server, index):
    """What the answer says, so that two of them can be compared; the choices of a stream come in any order, each in its own."""
    path, body = REQUESTS[index]
    if not body.get("stream"):
        status, answer, _ = server.request("POST", path, body, timeout=ANSWER_SECONDS)
        return (status, answer["choices"], usage_of(answer)) if status == 200 else (status, answer)
    stream = Stream(server, path, body).finish(ANSWER_SECONDS)
    choices = {}
    for event in stream.events:
        for choice in event.get("choices", []):
            choices.setdefault(choice["index"], []).append(choice)
    usage = usage_of(stream.events[-1]) if stream.events else None
    return stream.status, stream.error, stream.done, choices, usage


@functools.lru_cache
def gguf_file(kind):
    """A file of random weights whose leaves are whole blocks of this type."""
    folder = os.path.join(TEMPORARY.name, f"model-{kind}")
    file = os.path.join(folder, "phalanx-tiny.gguf")  # the name that requests ask for
    for tool, *arguments in (("make_synthetic_model", folder, "--shape", "blocks"), ("make_gguf", folder, file, "--type", kind)):
        # numpy belongs to the system's Python.
        subprocess.run(["/usr/bin/python3", os.path.join(ROOT, "tools", tool), *arguments], check=True, stdout=subprocess.DEVNULL)
    return file


def server_of(weights, kv, *arguments):
    kept = weights in GGUF_FORMATS  # as the file has them
    return Server("--quantization", "auto" if kept else weights, "--kv-cache-dtype", kv, *arguments, model=gguf_file(weights) if kept else TINY)


@functools.lru_cache
def undisturbed(weights="bf16", kv="bf16"):
    # It computes everything itself, while the others find what others have computed.
    with (server_of(weights, kv, "--no-prefix-cache") as server,
          concurrent.futures.ThreadPoolExecutor(4) as pool):
        answers = list(pool.map(lambda index: ask(server, index), range(len(REQUESTS))))
    for index, answer in enumerate(answers):
        assert answer[0] == 200 and (len(answer) == 3 or answer[1] is None and answer[2]), f"request {index}: {answer}"
    return answers


def differences(expected, indexes, futures):
    """What was asked and came out otherwise, in words."""
    found = []
    for index, future in zip(indexes, futures):
        try:
            answer = future.result()
        except (AssertionError, OSError, ValueError, http.client.HTTPException) as error:
            answer = repr(error)
        if answer != expected[index]:
            found.append(f"request {index} {REQUESTS[index][1]}\n    expected {str(expected[index])[:1500]}\n    came     {str(answer)[:1500]}")
    return found


class Plan:
    """What is asked when in one trial, and who ends how and when."""

    def __init__(self, rng):
        self.asked = [(rng.uniform(0, 0.4), rng.randrange(len(REQUESTS))) for _ in range(rng.randrange(5, 10))]
        self.faults = sorted((self.moment(rng, kind), rng.choice(SIGNALS), kind, rng.random())
                             for kind in (rng.choice(KINDS) for _ in range(rng.randrange(1, 6))))

    def moment(self, rng, kind):
        """A front is hit while it has something to say, shortly behind a request; what ranks and replicas leave undone is done later."""
        return rng.choice(self.asked)[0] + rng.uniform(0, 0.04) if kind == "front" else rng.uniform(0.02, 1.0)

    def run(self, server, expected):
        """(differences, the faults as they happened)."""
        began = time.monotonic()

        def ask_later(delay, index):
            time.sleep(max(0.0, began + delay - time.monotonic()))
            return ask(server, index)
        with concurrent.futures.ThreadPoolExecutor(len(self.asked)) as pool:
            futures = [pool.submit(ask_later, *asked) for asked in self.asked]
            faults = []
            for delay, sign, kind, share in self.faults:
                time.sleep(max(0.0, began + delay - time.monotonic()))
                faults.append(self.strike(server, sign, kind, share))
            return differences(expected, [index for _, index in self.asked], futures), faults

    @staticmethod
    def strike(server, sign, kind, share):
        """Sends the signal to one of those of its kind that there are at this moment."""
        status = server.status()
        if kind == "front":
            there = [(f"front {front['front']}{'' if front['active'] else ' (spare)'}", front["pid"]) for front in status["fronts"]]
        else:
            replicas = status["replicas"]
            there = [(f"dp{replica['replica']}.tp{rank['rank']}", rank["pid"]) for replica in replicas for rank in replica["ranks"]]
            there = there if kind == "rank" else [(f"dp{replica['replica']}", replica["pid"]) for replica in replicas]
        there = [(name, pid) for name, pid in there if pid and pid > 1]
        if not there:
            return f"no {kind} there"
        name, pid = there[int(share * len(there))]
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            return f"{sign.name} {name} (gone)"
        return f"{sign.name} {name}"


def in_turns(rng, values, count):
    """As many, in random order; all of them before one comes again."""
    found = []
    while len(found) < count:
        found += rng.sample(values, len(values))
    return found[:count]


class RandomTrials(unittest.TestCase):
    def test_no_answer_changes_whoever_ends(self):
        print(f"seed {SEED}, {TRIALS} trials", flush=True)
        rng = random.Random(SEED)
        wrong, ended = [], 0
        servers = -(-TRIALS // TRIALS_PER_SERVER)
        for group, ((dp, tp), isa) in enumerate(zip(in_turns(rng, TOPOLOGIES, servers), in_turns(rng, instruction_sets(), servers))):
            weights, kv = FORMATS[group % len(FORMATS)]
            tp = min(tp, GGUF_FORMATS.get(weights, tp))
            form = f"{weights} kv {kv} isa {isa}"
            expected = undisturbed(weights, kv)
            with server_of(weights, kv, "--isa", isa, "--dp", dp, "--tp", tp, "--fronts", 1 + group % 2, "--restart-intensity", "1000/60s",
                           "--max-num-batched-tokens", 64, "--max-num-seqs", 16, "--log-level", "warning") as server:
                for trial in range(group * TRIALS_PER_SERVER, min(TRIALS, (group + 1) * TRIALS_PER_SERVER)):
                    began = time.monotonic()
                    found, faults = Plan(rng).run(server, expected)
                    server.wait_idle(60)
                    server.expect_family(dp * (1 + tp))
                    ended += len(faults)
                    wrong += [f"trial {trial} of seed {SEED}, dp {dp} tp {tp} {form}, {faults}: {difference}" for difference in found]
                    print(f"trial {trial}: dp {dp} tp {tp} {form}; {', '.join(faults)}; {time.monotonic() - began:.1f} s; {len(found)} different",
                          flush=True)
        print(f"{TRIALS} trials, {ended} faults, {len(wrong)} answers different", flush=True)
        self.assertEqual(len(wrong), 0, "\n".join(wrong))


@unittest.skipUnless(IS_LONG, "takes more than a minute: --long")
class HangupsUnderLoad(unittest.TestCase):
    SECONDS = 60

    def test_a_hangup_every_two_seconds_fails_no_request(self):
        expected = undisturbed()
        with Server("--dp", 2, "--tp", 2, "--restart-intensity", "1000/60s", "--log-level", "warning") as server:
            over, wrong, answered = threading.Event(), [], [0] * 4

            def keep_asking(client):
                rng = random.Random(SEED + client)
                while not over.is_set():
                    index = rng.randrange(len(REQUESTS))
                    answer = ask(server, index)
                    if answer != expected[index]:
                        wrong.append((index, answer))
                    answered[client] += 1
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                clients = [pool.submit(keep_asking, client) for client in range(4)]
                end = time.monotonic() + self.SECONDS
                while time.monotonic() < end:
                    server.process.send_signal(signal.SIGHUP)
                    time.sleep(2)
                over.set()
                for client in clients:
                    client.result()
            eventually(lambda: server.status()["state"] == "serving", 60, "the rolling restarts are over")
            restarts = [replica["incarnation"] - 1 for replica in server.status()["replicas"]]
            print(f"{sum(answered)} answers during {restarts} restarts of the replicas, {len(wrong)} different", flush=True)
            self.assertEqual(wrong, [], f"seed {SEED}")
            self.assertGreaterEqual(min(restarts), 3, "the signals had an effect")
            self.assertEqual(server.chat("count from 7 to 12")["choices"][0]["message"]["content"], counted(7, 12))
            server.wait_idle()


if __name__ == "__main__":
    main()
