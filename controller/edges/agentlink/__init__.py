# SPDX-License-Identifier: Apache-2.0
"""The agents' side: the listener, streams, and the translation of api/agent.proto into values and back."""
