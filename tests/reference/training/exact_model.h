#pragma once
// The model of docs/training.md in double precision without any of its roundings, for derivatives: routes are given,
// so that the loss is a smooth function of the weights. Written from the formulas, with nothing of reference/training
// but the list of parameters.
//
// Weights are those of parameters_of, by parameter, as doubles. No errors.

#include "reference/training/model.h"
#include "tests/testing.h"

namespace mxcheck::exact_model {

using Row = std::vector<double>;
using Rows = std::vector<Row>;
using Weights = std::vector<Row>;

inline double dot(const Row& x, const double* w) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * w[i];
  return sum;
}

// y = x W^T.
inline Row linear(const Row& x, const Row& w) {
  Row y(w.size() / x.size());
  for (std::size_t o = 0; o < y.size(); ++o) y[o] = dot(x, w.data() + o * x.size());
  return y;
}

inline Row norm(const Row& x, const Row& gain) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double r = 1 / std::sqrt(squares / static_cast<double>(x.size()) + std::ldexp(1.0, -16));
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * r * gain[i];
  return y;
}

inline Row softmax(const Row& x) {
  double largest = x[0];
  for (const double v : x) largest = std::max(largest, v);
  Row p;
  double sum = 0;
  for (const double v : x) sum += p.emplace_back(std::exp(v - largest));
  for (double& v : p) v /= sum;
  return p;
}

// Columns j and j + c/2 of a head turned by position * 10000^(-2j/c).
inline void rotate(double* head, std::size_t c, double position) {
  for (std::size_t j = 0; j < c / 2; ++j) {
    const double a = position * std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(c));
    const double x = head[j];
    const double y = head[j + c / 2];
    head[j] = x * std::cos(a) - y * std::sin(a);
    head[j + c / 2] = y * std::cos(a) + x * std::sin(a);
  }
}

// Causal attention of one sequence: rows of q, k, v side by side.
inline Rows attention(const ModelShape& m, Rows qkv) {
  const auto d = static_cast<std::size_t>(m.width);
  const auto c = static_cast<std::size_t>(m.head_width());
  Rows out(qkv.size(), Row(d));
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    for (std::size_t at = 0; at < 2 * d; at += c) rotate(qkv[i].data() + at, c, static_cast<double>(i));
  }
  for (std::size_t at = 0; at < d; at += c) {
    for (std::size_t i = 0; i < qkv.size(); ++i) {
      Row z;
      const Row q(qkv[i].begin() + static_cast<std::ptrdiff_t>(at),
                  qkv[i].begin() + static_cast<std::ptrdiff_t>(at + c));
      for (std::size_t j = 0; j <= i; ++j)
        z.push_back(dot(q, qkv[j].data() + d + at) / std::sqrt(static_cast<double>(c)));
      const Row p = softmax(z);
      for (std::size_t j = 0; j <= i; ++j) {
        for (std::size_t col = 0; col < c; ++col) out[i][at + col] += p[j] * qkv[j][2 * d + at + col];
      }
    }
  }
  return out;
}

// One expert's output for u: W1 is d x 2n, gate and up in halves, W2 n x d.
inline Row expert(const ModelShape& m, const Row& u, const double* w1, const double* w2) {
  const auto d = static_cast<std::size_t>(m.width);
  const auto n = static_cast<std::size_t>(m.inner);
  Row h(2 * n);
  for (std::size_t i = 0; i < d; ++i) {
    for (std::size_t o = 0; o < 2 * n; ++o) h[o] += u[i] * w1[i * 2 * n + o];
  }
  Row y(d);
  for (std::size_t j = 0; j < n; ++j) {
    const double a = h[j] / (1 + std::exp(-h[j])) * h[n + j];
    for (std::size_t o = 0; o < d; ++o) y[o] += a * w2[j * d + o];
  }
  return y;
}

// tokens x top_k experts for each layer. `over_all`: weights are scores of the softmax over all experts, over the sum
// of those kept, which is the same number as the softmax over the kept.
using Routes = std::vector<std::vector<std::int32_t>>;

struct Loss {
  double tokens = 0;   // mean cross-entropy
  double balance = 0;  // sum over the layers
};

// The factors of a layer's balance loss, by expert, gathered over the tokens.
struct Balance {
  Row probability;
  Row count;
};

inline Row mixture(const ModelShape& m, const Row& u, const Row* weights, std::span<const std::int32_t> experts,
                   Balance& balance) {
  const Row logits = linear(u, weights[4]);
  const Row all = softmax(logits);
  Row kept;
  for (const std::int32_t e : experts)
    kept.push_back(logits[static_cast<std::size_t>(e)]), ++balance.count[static_cast<std::size_t>(e)];
  for (std::size_t e = 0; e < all.size(); ++e) balance.probability[e] += all[e];
  const Row s = softmax(kept);
  Row out(u.size());
  for (std::size_t k = 0; k < s.size(); ++k) {
    const auto e = static_cast<std::size_t>(experts[k]);
    const std::size_t size = weights[5].size() / all.size();
    const Row y = expert(m, u, weights[5].data() + e * size, weights[6].data() + e * (size / 2));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += s[k] * y[i];
  }
  return out;
}

// tokens: sequences of length + 1 bytes.
inline Loss loss(const TrainingConfig& c, const Weights& w, std::span<const std::uint8_t> tokens,
                 const Routes& routes) {
  const ModelShape& m = c.model;
  const auto d = static_cast<std::size_t>(m.width);
  const auto length = static_cast<std::size_t>(m.length);
  const std::size_t sequences = tokens.size() / (length + 1);
  const auto experts = static_cast<std::size_t>(m.experts);
  const auto k = static_cast<std::size_t>(m.top_k);
  std::vector<Balance> balances(routes.size(), Balance{Row(experts), Row(experts)});
  Loss total;
  for (std::size_t b = 0; b < sequences; ++b) {
    const auto bytes = tokens.subspan(b * (length + 1), length + 1);
    Rows x;
    for (std::size_t i = 0; i < length; ++i)
      x.emplace_back(w[0].begin() + static_cast<std::ptrdiff_t>(bytes[i] * d),
                     w[0].begin() + static_cast<std::ptrdiff_t>((bytes[i] + 1) * d));
    for (std::size_t l = 0; l < routes.size(); ++l) {
      const Row* layer = w.data() + 1 + 7 * l;
      Rows qkv;
      for (const Row& row : x) qkv.push_back(linear(norm(row, layer[0]), layer[1]));
      const Rows heads = attention(m, qkv);
      for (std::size_t i = 0; i < length; ++i) {
        const Row y = linear(heads[i], layer[2]);
        for (std::size_t j = 0; j < d; ++j) x[i][j] += y[j];
        const Row o =
            mixture(m, norm(x[i], layer[3]), layer, std::span(routes[l]).subspan((b * length + i) * k, k), balances[l]);
        for (std::size_t j = 0; j < d; ++j) x[i][j] += o[j];
      }
    }
    for (std::size_t i = 0; i < length; ++i)
      total.tokens -= std::log(softmax(linear(norm(x[i], w[w.size() - 2]), w.back()))[bytes[i + 1]]);
  }
  const auto count = static_cast<double>(sequences * length);
  total.tokens /= count;
  for (const Balance& balance : balances) {
    for (std::size_t e = 0; e < experts; ++e)
      total.balance += double{c.balance} * static_cast<double>(experts) * balance.count[e] /
                       (count * static_cast<double>(k)) * balance.probability[e] / count;
  }
  return total;
}

}  // namespace mxcheck::exact_model
