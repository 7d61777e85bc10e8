"""What the controller and the switch can do, measured: `./bicast experiment bench`, `make bench`."""
