package proc

// ContinueSupervisors is for Linux. On macOS nobody can say which process has a file open.
func ContinueSupervisors(string) bool { return false }
