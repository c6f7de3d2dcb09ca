"""A Mininet script on a network of P4 switches. Run it as root:

sudo ./weft python examples/mininet_script.py
"""

import re

import weft


def main() -> None:
    """Ping everybody, measure a throughput, and let a link fail while packets go over it."""
    with weft.up(weft.leaf_spine(leaves=2, spines=2, hosts_per_leaf=2, rate_bps=20_000_000)) as net:
        mininet = net.mininet
        print(f"{mininet.pingAll():g} % of the pings were lost")

        one, other = mininet["h0"], mininet["h3"]
        one.sendCmd(f"ping -i 0.05 -c 40 {other.IP()}")
        net.link("leaf0", "spine0").fail()
        answers = re.findall(r"(\d+) received", one.waitOutput())
        print(f"{answers[0]} of 40 pings were answered around a link that failed meanwhile")

        for switch in net.switches:
            routes = [entry for entry in switch.table("ipv4_route") if entry.owner]
            print(f"{switch.name}: {len(routes)} routes")


if __name__ == "__main__":
    main()
