#!/bin/sh
# Of the shape that the official image's has: the server's own flags, then what the pod's args say.
exec tensorflow_model_server --port=8500 --rest_api_port=8501 \
  "--model_name=${MODEL_NAME}" "--model_base_path=${MODEL_BASE_PATH}/${MODEL_NAME}" "$@"
