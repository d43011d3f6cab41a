"""Query-level balancing between language-model instances: predictions, decisions, simulation."""

from importlib.metadata import version

from rbalance.balancer import Balancer, Routed
from rbalance.balancer_stats import BalancerStats
from rbalance.batch import RouteRequest
from rbalance.batching import AdaptiveSizing, NaturalSizing
from rbalance.cluster import Cluster, Tier, article_cluster
from rbalance.embedder import Embedder
from rbalance.errors import (
    ArtefactError,
    ConfigError,
    MissingExtraError,
    NoInstanceError,
    RbalanceError,
    TrainingError,
)
from rbalance.evaluation import Evaluation, evaluate
from rbalance.explain import CandidateReport, Explanation
from rbalance.fixed_predictor import FixedPredictor
from rbalance.foresight import Foreseen, Foresight
from rbalance.instance_state import InstanceState
from rbalance.knn import KnnFit, KnnPredictor, fit_knn
from rbalance.labelled_tables import read_labelled
from rbalance.mapped_predictor import MappedPredictor
from rbalance.policies.registry import Ingredients, open_policy
from rbalance.predictions import Predictions, Predictor, Prior
from rbalance.predictor_artefact import load_predictor, load_prior, save_predictor
from rbalance.records import (
    LabelledPrompt,
    ModelSummary,
    RecordError,
    Summary,
    read_records,
    summarise,
)
from rbalance.sentence_embedder import SentenceEmbedder
from rbalance.slo_controller import SloController, SloSettings
from rbalance.telemetry import Telemetry
from rbalance.terms import Terms
from rbalance.training_set import TrainingSet, held_out
from rbalance.weights import Weights, parse_weights

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
    "Weights",
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
