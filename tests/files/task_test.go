package files

const taskVariable = "AGENTSTORE_TEST_FILES_TASK"

func runTask(string) error { return nil }
