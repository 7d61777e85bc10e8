# SPDX-License-Identifier: Apache-2.0
"""The places of paper 001's hosts.

The paper prints maps (figures 3 and 4) without a list, so these are university cities on the same continents: 50 hosts
in the United States and Europe, 45 in Asia and the United States. A region is its hosts' network.
"""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

EARTH_KM = 6371.0

HOSTS: dict[str, dict[str, dict[str, tuple[float, float]]]] = {  # by continent and region: latitude, longitude
    "us": {
        "california": {
            "berkeley": (37.87, -122.27), "stanford": (37.43, -122.17),
            "los-angeles": (34.07, -118.44), "san-diego": (32.88, -117.23),
        },
        "north-west": {"seattle": (47.65, -122.31), "eugene": (44.05, -123.07)},
        "mountains": {"salt-lake": (40.76, -111.85), "boulder": (40.01, -105.27), "tucson": (32.23, -110.95)},
        "texas": {"austin": (30.29, -97.74), "houston": (29.72, -95.40)},
        "plains": {"lawrence": (38.96, -95.25), "saint-louis": (38.65, -90.31)},
        "lakes": {
            "minneapolis": (44.97, -93.23), "madison": (43.08, -89.41), "chicago": (41.87, -87.65),
            "ann-arbor": (42.28, -83.74), "bloomington": (39.17, -86.52),
        },
        "south": {
            "nashville": (36.14, -86.80), "atlanta": (33.78, -84.40),
            "gainesville": (29.64, -82.35), "durham": (36.00, -78.94),
        },
        "middle": {"college-park": (38.99, -76.94), "pittsburgh": (40.44, -79.94), "princeton": (40.35, -74.66)},
        "north-east": {"new-york": (40.81, -73.96), "ithaca": (42.45, -76.48), "boston": (42.36, -71.09)},
    },
    "europe": {
        "britain": {"cambridge": (52.20, 0.12), "london": (51.52, -0.13), "lancaster": (54.01, -2.79)},
        "france": {"paris": (48.85, 2.35), "sophia": (43.62, 7.05)},
        "germany": {"berlin": (52.51, 13.33), "karlsruhe": (49.01, 8.41), "munich": (48.15, 11.57)},
        "switzerland": {"zurich": (47.38, 8.55), "lausanne": (46.52, 6.57)},
        "italy": {"pisa": (43.72, 10.40), "naples": (40.85, 14.27)},
        "spain": {"madrid": (40.33, -3.77), "barcelona": (41.39, 2.11)},
        "portugal": {"lisbon": (38.74, -9.14)},
        "low-countries": {"amsterdam": (52.33, 4.87), "leuven": (50.88, 4.70)},
        "north": {"stockholm": (59.35, 18.07), "copenhagen": (55.70, 12.57), "helsinki": (60.19, 24.83)},
        "poland": {"warsaw": (52.22, 21.01)},
        "greece": {"athens": (37.98, 23.78)},
    },
    "asia": {
        "japan": {
            "tokyo": (35.71, 139.76), "tsukuba": (36.11, 140.10), "osaka": (34.82, 135.52),
            "fukuoka": (33.60, 130.22), "sapporo": (43.07, 141.34),
        },
        "korea": {"seoul": (37.46, 126.95), "daejeon": (36.37, 127.36)},
        "china": {"beijing": (40.00, 116.33), "shanghai": (31.03, 121.44), "guangzhou": (23.10, 113.30)},
        "hong-kong": {"hong-kong": (22.34, 114.26)},
        "taiwan": {"taipei": (25.02, 121.54), "hsinchu": (24.80, 120.97)},
        "philippines": {"manila": (14.65, 121.07)},
        "thailand": {"bangkok": (13.74, 100.53)},
        "vietnam": {"hanoi": (21.00, 105.84)},
        "malaya": {"singapore": (1.30, 103.77), "kuala-lumpur": (3.12, 101.65)},
        "india": {"bangalore": (13.02, 77.57), "mumbai": (19.13, 72.92)},
    },
}  # fmt: skip
CROSSROADS = {  # cities without a host
    "denver": (39.74, -104.99), "kansas-city": (39.10, -94.58), "dallas": (32.78, -96.80), "miami": (25.77, -80.19),
    "washington": (38.90, -77.04), "frankfurt": (50.11, 8.68), "geneva": (46.20, 6.14), "milan": (45.46, 9.19),
    "vienna": (48.21, 16.37),
}  # fmt: skip
NOT_IN_ASIA_US = {"eugene", "lawrence", "gainesville"}  # 25 of the 28 hosts in the United States are in both sets

POSITIONS = {
    **CROSSROADS,
    **{name: at for regions in HOSTS.values() for hosts in regions.values() for name, at in hosts.items()},
}
REGION_OF = {name: region for regions in HOSTS.values() for region, hosts in regions.items() for name in hosts}
CONTINENT_OF = {name: continent for continent, regions in HOSTS.items() for hosts in regions.values() for name in hosts}


def hosts(*continents: str) -> tuple[str, ...]:
    return tuple(name for name, continent in CONTINENT_OF.items() if continent in continents)


SETS = {
    "US-Europe": hosts("us", "europe"),
    "Asia-US": tuple(name for name in hosts("asia", "us") if name not in NOT_IN_ASIA_US),
}


def distance_km(one: str, other: str) -> float:
    (lat1, lon1), (lat2, lon2) = ([radians(degrees) for degrees in POSITIONS[name]] for name in (one, other))
    chord = sin((lat2 - lat1) / 2) ** 2 + cos(lat1) * cos(lat2) * sin((lon2 - lon1) / 2) ** 2
    return 2 * EARTH_KM * asin(sqrt(chord))
