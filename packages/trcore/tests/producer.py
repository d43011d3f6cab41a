"""Run by the tests in a process of its own: ``producer.py RING-NAME PRODUCER COUNT``."""

import sys

import trcore


def record(producer: int, number: int) -> bytes:
    """Contents that follow from who sends it and when, 12 to 211 bytes."""
    head = b"%04d%08d" % (producer, number)
    return head + head[-1:] * ((number * 31 + producer) % 200)


def main() -> None:
    name, producer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with trcore.PeerRing.attach(name) as ring:
        records = [record(producer, number) for number in range(count)]
        done = 0
        while done < count:
            batch = records[done : done + 1 + done % 7]
            if len(batch) > 1:
                done += ring.push_many(batch, timeout=30.0)
            elif ring.push(batch[0]):
                done += 1


if __name__ == "__main__":
    main()
