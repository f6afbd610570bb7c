package model

import (
	"net/http"
	"time"
)

// RetryAfter is retryAfter.
func RetryAfter(h http.Header, now time.Time) time.Duration { return retryAfter(h, now) }

// Classify is classify.
func Classify(status int, body []byte) *Error { return classify(status, body) }
