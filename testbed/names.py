"""Names and addresses of all that a bed makes, so that it can be found again and removed.

A bed is a number. Every name is derived from it: nothing with another name is ever touched,
and what a killed bed left behind is found without having been written down one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

BEDS = 250
"""At most this many beds at a time; each takes one /24 network per site."""

ROUTER, OWNER = 253, 254
"""Last byte of a site's router and of the owner's address in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BedNames:
    """The names of one bed."""

    number: int
    """1 to 250."""

    @property
    def namespace_prefix(self) -> str:
        """What the names of all its network namespaces begin with."""
        return f"hrbed{self.number}-"

    def namespace(self, host: str) -> str:
        """Return a host's network namespace."""
        return f"{self.namespace_prefix}{host}"

    def switch(self, site: str) -> str:
        """Return the namespace with a site's switch; no host's name has a dot."""
        return f"{self.namespace_prefix}switch.{site}"

    @property
    def link_prefix(self) -> str:
        """What the names of its links in the owner's namespace begin with."""
        return f"hrbed{self.number}s"

    def owner_link(self, site_index: int) -> str:
        """Return the owner's link into a site."""
        return f"{self.link_prefix}{site_index}"

    @property
    def group(self) -> str:
        """Its control group, below the root of each hierarchy; hosts have groups in it."""
        return f"headrace-testbed-{self.number}"

    def network(self, site_index: int) -> str:
        """Return a site's network, out of the range that is set aside for benchmarks (RFC 2544)."""
        return f"{self._stem(site_index)}.0/24"

    def address(self, site_index: int, host_number: int) -> str:
        """Return a host's address."""
        return f"{self._stem(site_index)}.{host_number}"

    def _stem(self, site_index: int) -> str:
        return f"198.{18 + site_index}.{self.number}"
