# SPDX-License-Identifier: Apache-2.0
"""What GGUF files call the tensors of Hugging Face folders (Qwen3, Qwen2 and Llama families)."""

_LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTER_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(hf_name):
    """'blk.3.attn_q.weight' for 'model.layers.3.self_attn.q_proj.weight'."""
    if hf_name in _OUTER_NAMES:
        return _OUTER_NAMES[hf_name]
    layer, rest = hf_name.removeprefix("model.layers.").split(".", 1)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{_LAYER_NAMES[part]}.{kind}"
