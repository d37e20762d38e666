"""One budget of one dimension: what is spent, who has set something aside, and who waits for room."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Purse:
    limit: int = 0
    spent: int = 0
    breaches: int = 0
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    """By running job: what it has set aside, by name."""
    short: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By job: what it was refused, and since when."""

    @property
    def reserved(self) -> int:
        return sum(sum(holds.values()) for holds in self.held.values())

    def reserve(self, job_id: str, hold: str, amount: int, now: int) -> bool:
        """Whether there was room. A repetition changes nothing."""
        mine = self.held.get(job_id, {})
        if hold in mine:
            return True
        if amount > self.limit - self.spent - self.reserved:
            self.breaches += 1
            since = self.short[job_id][1] if job_id in self.short else now
            self.short[job_id] = (amount + sum(mine.values()), since)
            return False
        self.held.setdefault(job_id, {})[hold] = amount
        return True

    def settle(self, job_id: str, hold: str, used: int) -> None:
        mine = self.held[job_id]
        del mine[hold]
        if not mine:
            del self.held[job_id]
        self.breaches += self.spent <= self.limit < self.spent + used
        self.spent += used

    def fitting(self, waiting: list[str]) -> list[str]:
        """Those who find room beside each other, longest first."""
        room, chosen = self.limit - self.spent - self.reserved, list[str]()
        for job_id in sorted(waiting, key=lambda id: (self.short[id][1], id)):
            if self.short[job_id][0] <= room:
                room -= self.short[job_id][0]
                chosen.append(job_id)
        return chosen
