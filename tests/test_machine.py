"""How slow this machine is, is measured beside what is judged."""

import threading

from tests.machine import slowness


def test_a_thread_is_never_quicker_than_alone_and_nobody_goes_on_measuring() -> None:
    with slowness() as machine:
        machine.look()

    assert machine.factor >= 1.0
    assert not [one for one in threading.enumerate() if one.name == "slowness"]
