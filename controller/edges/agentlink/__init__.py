# SPDX-License-Identifier: Apache-2.0
"""The agents' side: the listener, streams, and the codec of api/agent.proto."""
