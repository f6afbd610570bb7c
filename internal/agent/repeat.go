package agent

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/git-spot/git-spot/internal/agent/model"
)

// A model that goes round in circles makes the same calls and gets the same results. One step of the
// circle is an answer: its calls with their results, each different one once.

const (
	repeatsSaid = 3 // rounds, from which on the model is told
	repeatsLast = 6 // rounds, with which the turn ends
	maxPeriod   = 3 // answers in one round
)

// circle watches the answers of a turn.
type circle struct{ steps [][sha256.Size]byte }

// add takes an answer's calls and their results, and says how many times in a row the last round was
// made; 1 is no repetition.
func (c *circle) add(calls []model.Call, results []model.Result) (rounds int) {
	type pair struct{ name, arguments, status, text string }
	seen := map[pair]bool{}
	step := sha256.New()
	for i, r := range results {
		p := pair{calls[i].Name, string(calls[i].Arguments) + calls[i].Malformed, r.Status, r.Text}
		if !seen[p] {
			seen[p] = true
			_ = json.NewEncoder(step).Encode([]string{p.name, p.arguments, p.status, p.text}) // a hash takes everything
		}
	}
	c.steps = append(c.steps, [sha256.Size]byte(step.Sum(nil)))
	if most := repeatsLast * maxPeriod; len(c.steps) > most {
		c.steps = c.steps[len(c.steps)-most:]
	}
	rounds = 1
	for period := 1; period <= maxPeriod; period++ {
		same := 0
		for i := len(c.steps) - 1; i >= period && c.steps[i] == c.steps[i-period]; i-- {
			same++
		}
		rounds = max(rounds, same/period+1)
	}
	return rounds
}
