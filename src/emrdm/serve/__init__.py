"""The web page behind ``emrdm serve``: images in, clear images out, for people who never typed a command.

``shelf``, ``work`` and ``desk`` do it and know nothing of web pages; ``page`` and ``server`` are all that sees Gradio.
"""
