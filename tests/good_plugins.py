"""Plug-ins that take whatever they are given, named in tests as a user would name them."""


def anything(*args, **options):
    return options


class AnyOptimizer:
    @staticmethod
    def start(x0_ld):
        return {}

    @staticmethod
    def deliver(memory, average_ld, server):
        return average_ld
