#!/bin/sh
# Runs tests of Verbatim as a kselftest: KTAP on stdout. Exit codes: 0 (passed), 1 (failed, or no test was decided)
# and 4 (verbatim is not installed). Copy it to tools/testing/selftests/, and name it in TEST_PROGS of the Makefile
# there.
#
# RIG is a rig of the rig file. Without arguments, the tests of the selection `quick` run.
ksft_skip=4
if ! command -v verbatim >/dev/null; then
    echo "KTAP version 1"
    echo "1..0 # SKIP verbatim is not installed"
    exit $ksft_skip
fi
[ $# -gt 0 ] || set -- quick
verbatim run --rig "${RIG:-virtual}" --known --ktap - "$@"
case $? in
    0) exit 0 ;;
    *) exit 1 ;;
esac
