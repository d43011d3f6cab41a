"""Query-level balancing between language-model instances: predictions, decisions, simulation."""

from importlib.metadata import version

from rbalance.cluster import Cluster, Tier, article_cluster
from rbalance.decide.balancer import Balancer, Routed
from rbalance.decide.balancer_stats import BalancerStats
from rbalance.decide.batching import AdaptiveSizing, NaturalSizing
from rbalance.decide.explain import CandidateReport, Explanation
from rbalance.decide.foresight import Foreseen, Foresight
from rbalance.decide.slo_controller import SloController, SloSettings
from rbalance.errors import (
    ArtefactError,
    ConfigError,
    MissingExtraError,
    NoInstanceError,
    RbalanceError,
    TrainingError,
)
from rbalance.labels.records import (
    LabelledPrompt,
    ModelSummary,
    RecordError,
    Summary,
    read_records,
    summarise,
)
from rbalance.labels.tables import read_labelled
from rbalance.labels.training_set import TrainingSet, held_out
from rbalance.policies.batch import RouteRequest
from rbalance.policies.policy import WeightedPolicy
from rbalance.policies.registry import Ingredients
from rbalance.policies.terms import Terms
from rbalance.policies.weights import Weights, parse_weights
from rbalance.policy_by_name import open_policy
from rbalance.predict.embedder import Embedder
from rbalance.predict.evaluation import Evaluation, evaluate
from rbalance.predict.fixed_predictor import FixedPredictor
from rbalance.predict.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.predict.mapped_predictor import MappedPredictor
from rbalance.predict.predictions import Predictions, Predictor, Prior
from rbalance.predict.predictor_artefact import load_predictor, load_prior, save_predictor
from rbalance.predict.sentence_embedder import SentenceEmbedder
from rbalance.state.instance_state import InstanceState
from rbalance.state.telemetry import Telemetry
from trcore import WhyNot

__version__ = version("rbalance")

__all__ = [
    "AdaptiveSizing",
    "ArtefactError",
    "Balancer",
    "BalancerStats",
    "CandidateReport",
    "Cluster",
    "ConfigError",
    "Embedder",
    "Evaluation",
    "Explanation",
    "FixedPredictor",
    "Foreseen",
    "Foresight",
    "Ingredients",
    "InstanceState",
    "KnnFit",
    "KnnPredictor",
    "LabelledPrompt",
    "MappedPredictor",
    "MissingExtraError",
    "ModelSummary",
    "NaturalSizing",
    "NoInstanceError",
    "Predictions",
    "Predictor",
    "Prior",
    "RbalanceError",
    "RecordError",
    "RouteRequest",
    "Routed",
    "SentenceEmbedder",
    "SloController",
    "SloSettings",
    "Summary",
    "Telemetry",
    "Terms",
    "Tier",
    "TrainingError",
    "TrainingSet",
    "WeightedPolicy",
    "Weights",
    "WhyNot",
    "__version__",
    "article_cluster",
    "evaluate",
    "fit_knn",
    "held_out",
    "load_predictor",
    "load_prior",
    "open_policy",
    "parse_weights",
    "read_labelled",
    "read_records",
    "save_predictor",
    "summarise",
]
