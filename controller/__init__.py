"""The P4Runtime controller: routes, multicast trees and faults."""
