package worktree_test

func landAndDie(string) {}
