"""Pages as servers' `/metrics` shows them, cut to what matters and some of what doesn't."""

from __future__ import annotations

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 12.0
vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 9.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 3.0
vllm:num_requests_waiting{engine="1",model_name="Qwen/Qwen3-8B"} 0.0
# HELP vllm:num_requests_waiting_by_reason Number of requests waiting, by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="Qwen/Qwen3-8B",reason="capacity"} 3.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.75
vllm:kv_cache_usage_perc{engine="1",model_name="Qwen/Qwen3-8B"} 0.25
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="Qwen/Qwen3-8B"} 7.0
"""

SGLANG = b"""\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 5.0
# HELP sglang:num_queue_reqs The number of requests in the waiting queue.
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.0
# HELP sglang:token_usage The token usage.
# TYPE sglang:token_usage gauge
sglang:token_usage{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.28
"""

TRTLLM = b"""\
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 4.0
# TYPE trtllm_num_requests_waiting gauge
trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 1.0
# TYPE trtllm_kv_cache_utilization gauge
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.62
"""

LLAMACPP = b"""\
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 2
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 1
"""

TRSERVE = b"""\
# TYPE trserve_group_queued_requests gauge
trserve_group_queued_requests 6.0
# TYPE trserve_group_active_requests gauge
trserve_group_active_requests 32.0
# TYPE trserve_group_active_requests_limit gauge
trserve_group_active_requests_limit 64.0
# TYPE trserve_subserver_kv_used_tokens gauge
trserve_subserver_kv_used_tokens{subserver="small"} 100.0
trserve_subserver_kv_used_tokens{subserver="large"} 900.0
# TYPE trserve_subserver_kv_capacity_tokens gauge
trserve_subserver_kv_capacity_tokens{subserver="small"} 1000.0
trserve_subserver_kv_capacity_tokens{subserver="large"} 1000.0
"""

TRGATEWAY = b"""\
# TYPE trgateway_instance_running gauge
trgateway_instance_running{instance="a",model="small"} 3.0
trgateway_instance_running{instance="b",model="large"} 4.0
# TYPE trgateway_instance_waiting gauge
trgateway_instance_waiting{instance="a",model="small"} 0.0
trgateway_instance_waiting{instance="b",model="large"} 5.0
"""

PAGES = (VLLM, SGLANG, TRTLLM, LLAMACPP, TRSERVE, TRGATEWAY)
