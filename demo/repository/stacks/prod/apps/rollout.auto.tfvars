rollout = "ok"
