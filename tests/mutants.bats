# The simulator of the scheduler notices when a rule is broken.
# once
load lib

setup() { cd "$ROOT" || return; }

@test "sim_sched: catches every one of the scheduler's mutants" {
	run tests/mutants.sh
	assert_success
	assert_line --regexp '^[0-9]+ mutants, [0-9]+ caught$'
}
