"""Reads JSON of Chrome's trace event format as its description has it, and says what is wrong with it."""
import json

# What each kind of event must have, beside "ph".
FIELDS = {
    "X": {"name": str, "cat": str, "pid": int, "tid": int, "ts": (int, float), "dur": (int, float)},
    "M": {"name": str, "pid": int, "args": dict},
    "C": {"name": str, "pid": int, "ts": (int, float), "args": dict},
    "s": {"name": str, "cat": str, "id": str, "pid": int, "tid": int, "ts": (int, float)},
    "f": {"name": str, "cat": str, "id": str, "pid": int, "tid": int, "ts": (int, float), "bp": str},
}


class Trace:
    """A trace whose every event is one that the format knows."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.whole = json.load(file)
        self.about = self.whole["otherData"]
        self.events = self.whole["traceEvents"]
        assert self.whole["displayTimeUnit"] in ("ms", "ns")
        for event in self.events:
            fields = FIELDS[event["ph"]]
            for name, kind in fields.items():
                assert isinstance(event.get(name), kind), (name, event)
            assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, event
        self.check_names()
        self.check_nesting()
        self.check_flows()
        self.check_counters()

    def of(self, phase):
        return [event for event in self.events if event["ph"] == phase]

    def slices(self, process, name):
        """Beginning and end of each slice of this name."""
        ids = {event["pid"] for event in self.of("M")
               if event["name"] == "process_name" and event["args"]["name"] == process}
        return [(event["ts"], event["ts"] + event["dur"]) for event in self.of("X")
                if event["pid"] in ids and event["name"] == name]

    def check_names(self):
        """Every process and thread that is drawn on has a name."""
        named = {(event["pid"], None if event["name"] == "process_name" else event["tid"])
                 for event in self.of("M") if event["name"] in ("process_name", "thread_name")}
        for event in self.of("X"):
            assert (event["pid"], None) in named and (event["pid"], event["tid"]) in named, event

    def check_nesting(self):
        """Slices of one thread lie in each other, or apart; an outer one comes first."""
        threads = {}
        for event in self.of("X"):
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
        for events in threads.values():
            open_ends = []
            for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
                end = event["ts"] + event["dur"]
                while open_ends and open_ends[-1] <= event["ts"] + 1e-6 and open_ends[-1] < end:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1] + 1e-6, event
                open_ends.append(end)

    def check_flows(self):
        """Each arrow has one beginning and one end, each within a slice of its thread."""
        begins, ends = ({}, {})
        for phase, seen in (("s", begins), ("f", ends)):
            for event in self.of(phase):
                assert event["id"] not in seen, event
                seen[event["id"]] = event
        assert begins.keys() == ends.keys()
        places = {}
        for event in self.of("X"):
            places.setdefault((event["pid"], event["tid"]), []).append(event)
        for event in [*begins.values(), *ends.values()]:
            around = places[event["pid"], event["tid"]]
            assert any(it["ts"] - 1e-6 <= event["ts"] <= it["ts"] + it["dur"] for it in around), event
            assert event["ph"] == "s" or event["bp"] == "e"

    def check_counters(self):
        for event in self.of("C"):
            assert event["args"] and all(isinstance(it, int) and it >= 0
                                         for it in event["args"].values()), event
