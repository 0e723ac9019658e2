"""The paper's second workload: an LSTM language model on WikiText-2."""
