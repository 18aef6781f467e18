"""A small real model that runs on this machine: no key, no server, no network once it is here."""
