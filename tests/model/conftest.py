# SPDX-License-Identifier: MIT
"""Lines that tests leave for the end of the report, also where every test passes."""
NOTES = []


def note(text):
    NOTES.append(text)


def pytest_terminal_summary(terminalreporter):
    for text in NOTES:
        terminalreporter.write_line(text)
