"""Other job queues, each in the configuration that an informed user would choose, behind one small interface.

Each module runs in an environment of its own that has the peer's package and nothing of ours, so these files import
only the standard library, the peer and `kit`.
"""
