"""The tests of this project: each folder mirrors a room of `src/treadle`."""
