package workers

import (
	"context"
	"fmt"

	"github.com/git-spot/git-spot/schemas"
)

// The rule of this file: a key is looked for when a turn begins, and goes no further than to the gateway
// or into the environment of a program that cannot do with less.

// What Invocation.Credential says of a program that never has the key: the gateway adds it.
const credentialGateway = "gateway"

// apiKey is the key of a profile's provider.
type apiKey struct {
	value string
	from  string // environment or helper; "" if the profile names no key
}

// findKey takes the key from the variable that the profile names, else from git's credential helper:
// that only for the gateway, since a worker program finds its variable by itself or not at all. The error
// is a *Error of class auth. With GIT_SPOT_REPLAY nobody is asked who would want one.
func findKey(ctx context.Context, t Turn, credential string) (apiKey, error) {
	name := t.Profile.APIKeyEnv
	if name == "" || credential == credentialGateway && t.Getenv(replayVariable) != "" {
		return apiKey{}, nil
	}
	if value := t.Getenv(name); value != "" {
		return apiKey{value, "environment"}, nil
	}
	refused := &Error{
		Class: schemas.FailureAuth, Profile: t.Profile.Name, Variable: name, code: schemas.CodeWorkerAuth,
		Message: fmt.Sprintf("the environment variable %s, which holds the key, is not set", name),
	}
	if credential != credentialGateway || t.Credential == nil {
		return apiKey{}, refused
	}
	refused.BaseURL = t.Profile.BaseURL
	value, err := t.Credential(ctx, t.Profile.BaseURL)
	if err != nil {
		refused.Err = err
		return apiKey{}, refused
	}
	if value == "" {
		refused.Message += ", and git's credential helper has none for " + t.Profile.BaseURL
		return apiKey{}, refused
	}
	return apiKey{value, "helper"}, nil
}
