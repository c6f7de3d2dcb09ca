"""What is found out about ranks that wait: who has not begun what they wait for, and whether sums
of switches do not come because ranks are late or because the tree is broken.

Switches wait for all ranks of a group, so a rank to which no sum comes does not know whether
another one computes for long. It says so after a while, and the others are asked how much they have
begun. If all have begun it, and the rank goes on to say that the same sum does not come, packets
are lost on the way. A tree that loses a link is planned anew at once where others lead around it
(`GroupTrees.lead_around`); this is for links around which none leads, and those of which the
controller does not know.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.pytorch.messages import (
    AskBegun,
    Begun,
    GroupLost,
    Late,
    Message,
    Silent,
    TreeMoved,
    WhoIsLate,
)

PATIENCE_S = 4.0
"""How long sums may take to come once all ranks have begun, if a link is known to have failed,"""
MORE_PATIENCE_S = 8.0
"""and otherwise: a rank that cannot be reached is named sooner, by those that ask for it."""
FRESH_S = 2.5
"""How long what a rank has said counts: it may have been stopped since."""
TELL_AGAIN_S = 1.0
"""How long after ranks were told of a tree that has moved they are told again, if one is silent."""
MOST_TOLD = 5
"""How often they are told at most: later a rank may be silent for reasons of its own."""
ANSWER_S = 1.0
"""How long a rank may take to say what it has begun."""

Said = list[tuple[int, Message]]
"""What is to be said to ranks of the run."""


@dataclass
class _Question:
    rank: int
    asked: WhoIsLate
    since_s: float


@dataclass
class _Group:
    begun: dict[int, tuple[int, float]] = field(default_factory=dict)
    """How many collectives each rank of the run had begun when it was asked, and when that was."""
    whole: dict[int, tuple[tuple[int, int], float]] = field(default_factory=dict)
    """By silent rank, a collective with the round whose sum is missing, and since when all are
    known to have begun it."""


class Silences:
    """What is known of groups of ranks in which some wait.

    Args:
        hosts: of the ranks of the run.
        down: returns the links that have failed, each with the host that it is of, if any.
    """

    def __init__(self, hosts: Sequence[str], down: Callable[[], Mapping[str, str]]) -> None:
        self._hosts = hosts
        self._down = down
        self._groups: dict[str, _Group] = {}
        self._questions: list[_Question] = []
        self._moved: deque[TreeMoved] = deque()
        """Of which the ranks are yet to be told."""
        self._moves: dict[str, tuple[TreeMoved, float, int]] = {}
        """By group, the last move of its tree, when the ranks were told of it, and how often."""

    def moved(self, name: str, epoch: int) -> None:
        """Take note that switches add for a group in another tree from now on; any thread may call
        it."""
        self._moved.append(TreeMoved(name, epoch))

    def due(self, now_s: float) -> Said:
        """Return what is to be said by now."""
        said = self.answers(now_s)
        while self._moved:
            said += self._tell_moved(self._moved.popleft(), now_s, 1)
        return said

    def _tell_moved(self, moved: TreeMoved, now_s: float, times: int) -> Said:
        self._moves[moved.name] = moved, now_s, times
        return [(rank, moved) for rank in range(len(self._hosts))]

    def hear(self, rank: int, message: Message, now_s: float) -> Said:
        """Take what a rank says, and return what is to be said to others."""
        match message:
            case Begun(name=name, count=count):
                self._group(name).begun[rank] = count, now_s
                return self.answers(now_s)
            case WhoIsLate():
                self._questions.append(_Question(rank, message, now_s))
                return self._ask(message.name, message.ranks, rank)
            case Silent():
                said = self._ask(message.name, message.ranks, rank)
                moved, told_s, times = self._moves.get(message.name, (None, now_s, 0))
                if moved and times < MOST_TOLD and now_s >= told_s + TELL_AGAIN_S:
                    said += self._tell_moved(moved, now_s, times + 1)
                return [*said, *self._broken(rank, message, now_s)]
        return []

    def answers(self, now_s: float) -> Said:
        """Return the answers that are due: all ranks have said what they have begun, or had the
        time to do so."""
        said: Said = []
        for question in list(self._questions):
            asked = question.asked
            begun = self._group(asked.name).begun
            others = [each for each in asked.ranks if each != question.rank]
            heard = {
                each: begun[each][0]
                for each in others
                if each in begun and begun[each][1] >= question.since_s
            }
            if len(heard) == len(others) or now_s >= question.since_s + ANSWER_S:
                self._questions.remove(question)
                late = [each for each, count in heard.items() if count <= asked.place]
                mute = [each for each in others if each not in heard]
                said.append((question.rank, Late(asked.key, self._text(late, mute))))
        return said

    def _text(self, late: Sequence[int], mute: Sequence[int]) -> str:
        found = [f"{self._name(each)} has not called it" for each in late]
        found += [f"{self._name(each)} does not answer" for each in mute]
        return ", ".join(found) or "all ranks have called it"

    def _name(self, rank: int) -> str:
        return f"rank {rank} of the run (host {self._hosts[rank]})"

    def _group(self, name: str) -> _Group:
        return self._groups.setdefault(name, _Group())

    def _ask(self, name: str, ranks: Sequence[int], rank: int) -> Said:
        return [(each, AskBegun(name)) for each in ranks if each != rank]

    def _broken(self, rank: int, silent: Silent, now_s: float) -> Said:
        """Return what is to be said if the tree of a group was found to be broken."""
        group, place = self._group(silent.name), silent.place
        known = [group.begun.get(each, (0, 0.0)) for each in silent.ranks if each != rank]
        if any(count <= place for count, _ in known):
            group.whole.pop(rank, None)
            return []
        missing = place, silent.round
        before, since_s = group.whole.get(rank, ((-1, -1), now_s))
        if before != missing:
            group.whole[rank] = missing, now_s
            return []
        down = self._down()
        patience_s = PATIENCE_S if down else MORE_PATIENCE_S
        if now_s < since_s + patience_s or any(at_s < now_s - FRESH_S for _, at_s in known):
            return []
        cut = [
            f"lost {self._name(each)}: its link {link} is down"
            for link, host in sorted(down.items())
            for each in silent.ranks
            if self._hosts[each] == host
        ]
        failed = f" ({', '.join(sorted(down))} is down)" if down else ""
        reason = "; ".join(cut) or (
            f"{self._name(rank)} gets no sums from the switches, though all ranks take part: their "
            f"tree is broken{failed}; make the group anew, or choose --allreduce ring"
        )
        return [(each, GroupLost(silent.name, reason)) for each in silent.ranks]
