"""A page as a server's `/metrics` shows it, after R2R-like routing of known counts."""

from __future__ import annotations

PAGE = """\
# HELP trserve_subserver_up 1 while the model answers
# TYPE trserve_subserver_up gauge
trserve_subserver_up{subserver="small"} 1.0
trserve_subserver_up{subserver="large"} 1.0
# HELP trserve_subserver_moves_total Steps of requests by where the request was after them
# TYPE trserve_subserver_moves_total counter
trserve_subserver_moves_total{subserver="small",to="small"} 650.0
trserve_subserver_moves_total{subserver="small",to="large"} 350.0
trserve_subserver_moves_total{subserver="large",to="small"} 350.0
trserve_subserver_moves_total{subserver="large",to="large"} 0.0
# HELP trserve_subserver_tokens_moved_total Those that committed a token
# TYPE trserve_subserver_tokens_moved_total counter
trserve_subserver_tokens_moved_total{subserver="small",to="small"} 650.0
trserve_subserver_tokens_moved_total{subserver="small",to="large"} 0.0
trserve_subserver_tokens_moved_total{subserver="large",to="small"} 350.0
trserve_subserver_tokens_moved_total{subserver="large",to="large"} 0.0
# HELP trserve_subserver_batch_steps_total Turns by batch size
# TYPE trserve_subserver_batch_steps_total counter
trserve_subserver_batch_steps_total{subserver="small",size="1"} 100.0
trserve_subserver_batch_steps_total{subserver="small",size="3"} 200.0
trserve_subserver_batch_steps_total{subserver="large",size="2"} 50.0
# HELP trserve_subserver_batch_seconds_total Their seconds
# TYPE trserve_subserver_batch_seconds_total counter
trserve_subserver_batch_seconds_total{subserver="small",size="1"} 0.6
trserve_subserver_batch_seconds_total{subserver="small",size="3"} 1.6
trserve_subserver_batch_seconds_total{subserver="large",size="2"} 1.395
"""
