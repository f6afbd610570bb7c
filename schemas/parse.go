package schemas

import (
	"fmt"
	"path"
)

// ParseContract reads a task contract strictly and fills in the defaults: kind code, the limits, the
// time limit, network and baseline of every command, and "" for a cwd that names the top. What is wrong
// with the document is a *ContractError. The contract is nil if there is an error.
func ParseContract(data []byte) (*Contract, error) {
	c, problems, err := parse[Contract]("task-contract", data)
	if err != nil {
		return nil, err
	}
	if problems == nil {
		problems = c.repeatedIDs()
	}
	if problems != nil {
		return nil, &ContractError{Problems: problems}
	}
	c.fill()
	return c, nil
}

// ParseReview reads a review strictly. What is wrong with the document is a *DocumentError with code
// REVIEW_INVALID. The review is nil if there is an error.
func ParseReview(data []byte) (*Review, error) {
	r, problems, err := parse[Review]("review-result", data)
	if err != nil {
		return nil, err
	}
	if problems != nil {
		return nil, &DocumentError{Name: "review-result", Problems: problems}
	}
	return r, nil
}

// ParseState reads state.json strictly. An error of any kind means that the ledger is corrupt, or was
// written by a later version.
func ParseState(data []byte) (*RunState, error) {
	s, problems, err := parse[RunState]("run-state", data)
	if err != nil {
		return nil, err
	}
	if problems != nil {
		return nil, &DocumentError{Name: "run-state", Problems: problems}
	}
	return s, nil
}

func parse[T any](name string, data []byte) (*T, []Problem, error) {
	d, err := find(name)
	if err != nil {
		return nil, nil, err
	}
	v := new(T)
	problems, err := d.decode(data, v)
	return v, problems, err
}

// repeatedIDs finds what a JSON Schema cannot: two criteria or two checks of one id.
func (c *Contract) repeatedIDs() []Problem {
	var problems []Problem
	look := func(list string, ids []string) {
		first := map[string]int{}
		for i, id := range ids {
			if j, repeated := first[id]; repeated {
				problems = append(problems, Problem{
					Pointer: fmt.Sprintf("/%s/%d/id", list, i),
					Message: fmt.Sprintf("same id as /%s/%d", list, j),
				})
				continue
			}
			first[id] = i
		}
	}
	var criteria, checks []string
	for _, a := range c.Acceptance {
		criteria = append(criteria, a.ID)
	}
	for _, v := range c.Verification {
		checks = append(checks, v.ID)
	}
	look("acceptance", criteria)
	look("verification", checks)
	return problems
}

// fill puts the defaults where the contract is silent.
func (c *Contract) fill() {
	or(&c.Kind, KindCode)
	steps := DefaultMaxSteps
	if c.Kind == KindExplore || c.Kind == KindTest {
		steps = DefaultReadOnlySteps
	}
	or(&c.Limits.TimeoutSeconds, DefaultTurnSeconds)
	or(&c.Limits.IdleSeconds, DefaultIdleSeconds)
	or(&c.Limits.MaxSteps, steps)
	or(&c.Limits.MaxChangedFiles, DefaultMaxChangedFiles)
	or(&c.Limits.MaxDiffBytes, DefaultMaxDiffBytes)
	or(&c.Limits.MaxDeletedLines, DefaultMaxDeletedLines)
	for i := range c.Setup {
		s := &c.Setup[i]
		s.Cwd = folder(s.Cwd)
		or(&s.TimeoutSeconds, DefaultCommandSeconds)
		or(&s.Network, NetworkFull)
	}
	for i := range c.Verification {
		v := &c.Verification[i]
		v.Cwd = folder(v.Cwd)
		or(&v.TimeoutSeconds, DefaultCommandSeconds)
		or(&v.Network, NetworkLoopback)
		or(&v.Baseline, BaselineAuto)
	}
}

func or[T comparable](field *T, otherwise T) {
	var zero T
	if *field == zero {
		*field = otherwise
	}
}

// folder spells a folder of the repository in one way.
func folder(cwd string) string {
	if cwd = path.Clean(cwd); cwd == "." {
		return ""
	}
	return cwd
}
